import Domain
import Glibc
import WakeRules
import WakeSimulation

/// `wake-simulation [PHONES [SEED]]`: fourteen days, by default of 100,000 phones; exits with 1 where a rule is broken.
@main
struct Main {
    static func main() {
        let arguments = CommandLine.arguments.dropFirst().compactMap { Int($0) }
        let phones = arguments.first ?? 100_000
        let seed = UInt64(arguments.dropFirst().first ?? 1)
        var failed = false
        for schedule in [SendSchedule(.hourly(minute: 20)), SendSchedule(.continuous)] {
            var simulation = WakeSimulation(.init(phones: phones, seed: seed, policy: WakePolicy(schedule: schedule)))
            let start = ContinuousClock.now
            let report = simulation.run()
            print("\(phones) phones, 14 days, \(schedule): \(ContinuousClock.now - start)")
            print(report.summary)
            failed = failed || !report.faults.isEmpty
        }
        exit(failed ? 1 : 0)
    }
}
