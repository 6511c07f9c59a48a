import Dispatch
import Domain
import Foundation
import Storage
import Synchronization
import TestSupport
import Testing

/// The field cases of days and sources, from HTTP to PostgreSQL.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Days and sources` {
    private let days: DaysUnderTest
    private let person: Person
    /// Over everywhere, and recent.
    private let day = PipelineUnderTest.today.advanced(by: -3)

    init() throws {
        days = try .shared()
        person = days.newPerson()
    }

    private func at(_ time: String, plus offset: Int = 0) -> String { "\(day.advanced(by: offset))T\(time):00Z" }

    private func json(_ fields: String, _ offset: Int = 0) -> String {
        #"{"date":"\#(day.advanced(by: offset))",\#(fields)}"#
    }

    @Test func `A1 of three devices the highest steps count`() throws {
        try person.post(.oura, json(#""steps":6200"#))
        try person.post(.appleHealth, json(#""steps":7050"#))
        try person.post(.garmin, json(#""steps":7010"#))
        let canonical = try #require(try person.canonical(day))
        #expect(canonical.values == [.steps: 70_500])
        #expect(canonical.winner(of: .steps)?.source == .appleHealth)
        #expect(try person.rows(day).count == 3)
    }

    @Test func `A2 an older reading that is delivered later never wins, and is counted`() throws {
        try person.post(.appleHealth, observed: at("23:50"), json(#""steps":12900"#))
        try days.settle()
        let before = try days.counted("older")
        try person.post(.appleHealth, observed: at("09:10"), json(#""steps":3100"#))
        #expect(try person.canonical(day)?.values == [.steps: 129_000])
        #expect(try days.counted("older") == before + 1)
    }

    @Test func `A3 a newer reading may be lower, and the day stays one row`() throws {
        try person.post(.appleHealth, observed: at("08:00", plus: 1), json(#""steps":11400"#))
        try person.post(.appleHealth, observed: at("12:00", plus: 1), json(#""steps":10950"#))
        #expect(try person.canonical(day)?.values == [.steps: 109_500])
        #expect(try person.rows(day).count == 1)
    }

    @Test func `A4 an older reading still gives the metrics that the newer one lacks`() throws {
        try person.post(.appleHealth, observed: at("11:00"), json(#""steps":6000"#))
        try person.post(.appleHealth, observed: at("10:00"), json(#""steps":5000,"hrv_sdnn_ms":51"#))
        #expect(try person.canonical(day)?.values == [.steps: 60_000, .hrvSDNN: 510])
    }

    @Test func `A5 active and total energy are kept apart`() throws {
        try person.post(.appleHealth, json(#""active_energy_kcal":520"#))
        try person.post(.whoop, json(#""total_energy_kcal":2380"#))
        let canonical = try #require(try person.canonical(day))
        #expect(canonical.values == [.activeEnergy: 5200, .totalEnergy: 23_800])
        #expect(canonical.winner(of: .totalEnergy)?.source == .whoop)
    }

    @Test func `A6 typed steps do not count where a device has any`() throws {
        try person.post(.manual, json(#""steps":40000"#))
        try person.post(.appleHealth, json(#""steps":6000"#))
        let canonical = try #require(try person.canonical(day))
        #expect(canonical.values == [.steps: 60_000] && canonical.winner(of: .steps)?.source == .appleHealth)
    }

    @Test func `A7 zeros of a missing read count for nothing`() throws {
        let zeros = json(#""hrv_sdnn_ms":0,"resting_heart_rate_bpm":0,"steps":0"#)
        let answer = try person.post(.appleHealth, zeros)
        #expect(answer.skipped.count == 3 && answer.skipped.allSatisfy { $0["code"] as? String == "zero" })
        try person.post(.garmin, json(#""steps":4000"#))
        #expect(try person.canonical(day)?.values == [.steps: 40_000])
    }

    @Test func `A8 absent, null and zero leave a value alone, an observed zero replaces it`() throws {
        try person.post(.appleHealth, json(#""steps":8300"#))
        for fields in [#""flights_climbed":3"#, #""steps":null"#] {
            try person.post(.appleHealth, json(fields))
            #expect(try person.canonical(day)?.values[.steps] == 83_000)
        }
        let zero = try person.post(.appleHealth, json(#""steps":0"#))
        #expect(zero.skipped.count == 1 && zero.skipped[0]["field"] as? String == "steps")
        #expect(try person.canonical(day)?.values[.steps] == 83_000)
        let observed = try person.post(.appleHealth, zeros: "observed", json(#""steps":0"#))
        #expect(observed.skipped.isEmpty && observed.accepted == 1)
        #expect(try person.canonical(day)?.values[.steps] == 0)
    }

    @Test func `A9 metrics that pushes leave out keep their value and the time of its reading`() throws {
        let first = json(#""steps":5000,"hrv_sdnn_ms":44,"sleep_minutes":420"#)
        try person.post(.appleHealth, observed: at("08:00"), first)
        for offset in 0..<3 {
            try person.post(.appleHealth, observed: at("20:00", plus: offset), json(#""steps":\#(6000 + offset)"#))
        }
        #expect(
            try person.canonical(day)?.values == [.steps: 60_020, .hrvSDNN: 440, .sleepMinutes: 4200]
        )
        let row = try #require(try person.rows(day).first).state
        #expect(row.version(of: .hrvSDNN)?.instant == Instant(rfc3339: at("08:00")))
        #expect(row.version(of: .steps)?.instant == Instant(rfc3339: at("20:00", plus: 2)))
    }

    @Test func `A10 two kinds of HRV are two metrics`() throws {
        try person.post(.appleHealth, json(#""hrv_sdnn_ms":48"#))
        try person.post(.whoop, json(#""hrv_rmssd_ms":92"#))
        #expect(try person.canonical(day)?.values == [.hrvSDNN: 480, .hrvRMSSD: 920])
    }

    @Test func `A11 numbers in other forms are taken if they are whole, else their item is an error`() throws {
        let literals = ["88.07", "8421.0", #""8421""#, "1e3", "-5", "7000"]
        let bodies = literals.enumerated().map { json(#""steps":\#($1)"#, -$0) }
        let answer = try person.post(.appleHealth, all: bodies)
        #expect(answer.accepted == 3)
        #expect(answer.errors.map { $0["index"] as? Int } == [0, 2, 4])
        #expect(answer.errors.map { $0["code"] as? String } == ["not_whole", "not_a_number", "out_of_range"])
        let found = try person.allDays()
        #expect(found.count == 3)
        #expect(found[day.advanced(by: -1)]?.values == [.steps: 84_210])
        #expect(found[day.advanced(by: -3)]?.values == [.steps: 10_000])
        #expect(found[day.advanced(by: -5)]?.values == [.steps: 70_000])
        try person.post(.appleHealth, expecting: 400, json(#""steps":NaN"#))
        let huge = try days.ingest.post(
            #"{"source":"manual","days":[\#(json(#""steps":1e130000"#)),\#(json(#""steps":7"#, -1))]}"#,
            try IngestUnderTest.token(person.user)
        )
        #expect([202, 400].contains(huge.status), "\(huge.body)")
    }

    @Test func `A12 fourteen good days and a bad one: fourteen are stored, and the value is in no log`() throws {
        let bodies = (0..<15).map { json(#""steps":\#($0 == 9 ? -48613 : 3000 + $0)"#, -$0) }
        let answer = try person.post(.appleHealth, all: bodies)
        #expect(answer.accepted == 14 && answer.errors.count == 1)
        let error = try #require(answer.errors.first)
        #expect(error["index"] as? Int == 9 && error["code"] as? String == "out_of_range")
        #expect((error["field"] as? String)?.hasSuffix("steps") == true)
        #expect(try person.allDays().count == 14)
        #expect(!days.ingest.process.output.contains("48613") && !days.worker.output.contains("48613"))
    }

    @Test func `A13 a reinstalled app that pushes thirty days leaves the rest of the year alone`() throws {
        let year = (0..<365).map { json(#""steps":\#(4000 + $0)"#, -$0) }
        try person.post(.appleHealth, all: year)
        let before = try person.allDays()
        #expect(before.count == 365)
        try person.post(.appleHealth, all: (0..<30).map { json(#""steps":\#(9000 + $0)"#, -$0) })
        let after = try person.allDays()
        #expect(after.count == 365)
        for offset in 0..<365 {
            let date = day.advanced(by: -offset)
            let expected = offset < 30 ? Int32(9000 + offset) * 10 : before[date]?.values[.steps]
            #expect(after[date]?.values[.steps] == expected)
        }
    }

    @Test func `A14 a cloud source that fell silent is stale, and the user is not`() throws {
        let now = PipelineUnderTest.now
        let twoDaysAgo = now.advanced(bySeconds: -48 * 3600)
        try days.publisher.publish(
            person.user,
            .oura,
            receivedAt: twoDaysAgo,
            localDate: day,
            [(day, [.sleepMinutes: 4000])]
        )
        try days.publisher.flush()
        try person.post(.appleHealth, json(#""steps":5000"#))
        #expect(try person.connection(.oura)?.push == twoDaysAgo.microseconds)
        let fresh = try #require(try person.connection(.appleHealth))
        #expect(fresh.push >= now.microseconds)
        #expect(try person.canonical(day)?.values == [.steps: 50_000, .sleepMinutes: 4000])
    }

    @Test func `A15 the same fifteen days twenty times change nothing but the time of the last push`() throws {
        let batch = (0..<15).map { json(#""steps":\#(5000 + $0)"#, -$0) }
        try person.post(.appleHealth, all: batch)
        let first = try #require(try person.connection(.appleHealth))
        let before = try person.allDays()
        for _ in 0..<20 { try person.post(.appleHealth, all: batch) }
        let last = try #require(try person.connection(.appleHealth))
        #expect(last.push > first.push && last.data == first.data)
        #expect(try person.allDays() == before && before.count == 15)
    }

    @Test func `A16 two requests at once with the same day make one row`() throws {
        let failures = Mutex<[String]>([])
        let token = try IngestUnderTest.token(person.user)
        let bodies = (0..<8).map { number in
            #"{"source":"apple_health","time_zone":"UTC","days":[\#(json(#""steps":\#(5000 + number)"#))]}"#
        }
        let port = days.ingest.port
        DispatchQueue.concurrentPerform(iterations: bodies.count) { index in
            do {
                let answer = try HTTPConnection(port: port).request(
                    "POST",
                    "/v1/days",
                    token: token,
                    body: Array(bodies[index].utf8)
                )
                if answer.status != 202 { failures.withLock { $0.append(answer.body) } }
            } catch {
                failures.withLock { $0.append("\(error)") }
            }
        }
        #expect(failures.withLock { $0 }.isEmpty)
        let rows = try person.rows(day)
        #expect(rows.count == 1)
        let steps = try #require(rows.first?.state.values[.steps])
        #expect((50_000...50_070).contains(steps))
        #expect(try person.canonical(day)?.values == [.steps: steps])
    }
}
