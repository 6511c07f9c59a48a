import Domain
import Testing
import WakeRules

@Suite struct `Whether the database's clock is steady` {
    private let start = Instant(microseconds: 1_780_000_000_000_000)
    private let second: Int64 = 1_000_000_000

    /// Looks at the seconds of the even clock, with the database's clock ahead by so many.
    private func look(
        _ watch: inout ClockWatch,
        _ seconds: Int64,
        ahead: Int64,
        lasting: Int64 = 0
    ) -> (jump: ClockJump, lastSeen: Instant)? {
        let database = start.advanced(bySeconds: Int(seconds + ahead))
        return watch.look(database, between: seconds * second, and: (seconds + lasting) * second)
    }

    @Test func `corrections by less than a minute are none of its business, and nor is time that passes`() {
        var watch = ClockWatch()
        for (seconds, ahead) in [(0, 0), (1, 59), (2, 0), (90_000, 0), (90_001, -59), (90_002, -110)]
            as [(Int64, Int64)]
        {
            #expect(look(&watch, seconds, ahead: ahead) == nil)
            #expect(watch.isSteady(at: seconds * second))
        }
        #expect(watch.time(at: 90_010 * second) == start.advanced(bySeconds: 90_010 - 110))
    }

    @Test func `a jump is noticed once, in both directions, and has settled after ten minutes`() throws {
        for by in [61, -61, 7200, -7200] as [Int64] {
            var watch = ClockWatch()
            #expect(look(&watch, 100, ahead: 0) == nil)
            let seen = try #require(look(&watch, 130, ahead: by))
            #expect(seen.lastSeen == start.advanced(bySeconds: 100))
            #expect(seen.jump == ClockJump(through: start.advanced(bySeconds: 130), by: by * 1_000_000))
            #expect(!watch.isSteady(at: 131 * second) && !watch.isSteady(at: 729 * second))
            // Whatever the right time is: none that is later.
            #expect(watch.time(at: 131 * second) == start.advanced(bySeconds: 131 + Int(min(by, 0))))
            #expect(look(&watch, 700, ahead: by) == nil)
            #expect(watch.isSteady(at: 730 * second))
            #expect(watch.time(at: 800 * second) == start.advanced(bySeconds: 800 + Int(by)))
        }
    }

    @Test func `an answer that took long, or a process that was frozen over it, is no jump`() {
        var watch = ClockWatch()
        #expect(look(&watch, 0, ahead: 0) == nil)
        // The database was asked at once and the answer read an hour later, or the other way round.
        #expect(look(&watch, 10, ahead: 0, lasting: 3600) == nil)
        #expect(look(&watch, 4000, ahead: 0) == nil)
        let late = watch.look(start.advanced(bySeconds: 8000), between: 4400 * second, and: 8000 * second)
        #expect(late == nil)
        #expect(look(&watch, 8001, ahead: 0) == nil)
        #expect(watch.isSteady(at: 8001 * second))
    }

    @Test func `what a jump is bounded by holds however long the answers took`() throws {
        var watch = ClockWatch()
        _ = watch.look(start.advanced(bySeconds: 95), between: 90 * second, and: 100 * second)
        let found = watch.look(start.advanced(bySeconds: 1000), between: 190 * second, and: 200 * second)
        let seen = try #require(found)
        // Ahead by -5 to 5 s before, by 800 to 810 s then: at least what it may be.
        #expect(seen.jump.by == 815_000_000)
        #expect(seen.jump.through == start.advanced(bySeconds: 205))
        #expect(seen.jump.end >= start.advanced(bySeconds: 1000))
    }
}
