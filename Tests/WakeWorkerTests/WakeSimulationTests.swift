import Testing
import WakeRules
import WakeSimulation

/// A short form of `wake-simulation`: fewer phones, the same fourteen days.
@Suite struct `Fourteen days of phones` {
    @Test(arguments: [SendSchedule(.hourly(minute: 20)), SendSchedule(.continuous)])
    func `never twice in the spacing, nobody starved, back-off and healing as plain rules have it`(
        _ schedule: SendSchedule
    ) {
        var simulation = WakeSimulation(.init(phones: 600, seed: 7, policy: WakePolicy(schedule: schedule)))
        let report = simulation.run()
        #expect(report.faults.isEmpty, "\(report.summary)")
        // It has to have met what it is about.
        #expect(report.accepted > 5000 && report.answered > 2000, "\(report.summary)")
        #expect(report.kills > 10 && report.settled > 10 && report.lateEnds > 5 && report.unknown > 10)
        // Each worker sees the clock go back and go forward again, unless it was killed just then.
        #expect(report.mostInADay <= 6 && report.tokensLost > 50 && (3...6).contains(report.jumps))
    }

    @Test(arguments: Mistake.allCases)
    func `a mistake of the workers is found`(_ mistake: Mistake) {
        var settings = WakeSimulation.Settings(
            phones: 600,
            seed: 7,
            policy: WakePolicy(schedule: SendSchedule(.continuous))
        )
        settings.mistake = mistake
        var simulation = WakeSimulation(settings)
        let report = simulation.run()
        #expect(report.faults[mistake.rule, default: 0] > 0, "\(report.summary)")
    }
}
