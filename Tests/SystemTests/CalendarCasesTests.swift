import Domain
import Foundation
import Storage
import TestSupport
import Testing

/// The field cases of the calendar, from HTTP to PostgreSQL.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The calendar` {
    private let days: DaysUnderTest
    private let person: Person
    private let today = PipelineUnderTest.today
    private let day = PipelineUnderTest.today.advanced(by: -3)

    init() throws {
        days = try .shared()
        person = days.newPerson()
    }

    private func json(_ date: String, _ steps: Int) -> String { #"{"date":"\#(date)","steps":\#(steps)}"# }

    private func json(_ date: CalendarDay, _ steps: Int) -> String { json(date.description, steps) }

    @Test(arguments: [("Asia/Tokyo", "22:30", 0), ("America/Los_Angeles", "04:00", -1)])
    func `B1 the phone's own date decides what day it is`(zone: String, time: String, ahead: Int) throws {
        // In Tokyo it is 07:30 of `local`, in Los Angeles 20:00 (or 21:00).
        let utc = zone == "Asia/Tokyo" ? day.advanced(by: -1) : day
        let local = day.advanced(by: ahead)
        try person.post(
            .appleHealth,
            observed: "\(utc)T\(time):00Z",
            zone: zone,
            json(local.advanced(by: -1), 9000),
            json(local, 500)
        )
        // The day before is over for the phone, its today is not.
        #expect(try person.canonical(local.advanced(by: -1))?.isFinal == true)
        #expect(try person.canonical(local)?.isFinal == false)
    }

    @Test(arguments: [("Pacific/Guadalcanal", 11), ("Pacific/Kiritimati", 14)])
    func `B2 a date that is ahead of the server's is accepted where it is today`(zone: String, hours: Int) throws {
        let local = PipelineUnderTest.now.day(secondsFromUTC: hours * 3600)
        let answer = try person.post(.appleHealth, zone: zone, json(local, 100), json(local.advanced(by: 1), 5))
        #expect(answer.accepted == 2 && answer.skipped.isEmpty)
        #expect(try person.canonical(local)?.values == [.steps: 1000])
    }

    @Test func `B3 impossible dates are errors, far ones are skipped, and neither makes anybody fresh`() throws {
        let far = try person.post(
            .appleHealth,
            json("2041-03-02", 1),
            json(today.advanced(by: 2), 2),
            json("2024-02-29", 3)
        )
        #expect(far.accepted == 0 && far.positions.isEmpty && far.errors.isEmpty)
        #expect(far.skipped.map { $0["code"] as? String } == ["too_far_ahead", "too_far_ahead", "too_old"])
        let impossible = ["2026-02-30", "2026-9-2", "2026-13-01", "20260902", ""]
        let refused = try person.post(.appleHealth, expecting: 422, all: impossible.map { json($0, 4) })
        #expect(refused.errors.count == impossible.count)
        #expect(refused.errors.allSatisfy { $0["code"] as? String == "bad_date" })
        let zero = try person.post(.appleHealth, json("0000-01-01", 5), json(day, 6))
        #expect(zero.accepted == 1 && zero.skipped.count + zero.errors.count == 1)

        let other = days.newPerson()
        try other.post(.appleHealth, json("2041-03-02", 1))
        #expect(try other.connection(.appleHealth) == nil && other.allDays().isEmpty)
        #expect(try Array(person.allDays().keys) == [day])
    }

    @Test func `B4 a day that was read in two zones is one row, and its neighbours are untouched`() throws {
        let neighbours = [json(day.advanced(by: -1), 7000), json(day.advanced(by: 1), 7500)]
        try person.post(.appleHealth, observed: "\(day)T11:00:00Z", zone: "Asia/Singapore", all: neighbours)
        try person.post(.appleHealth, observed: "\(day)T12:00:00Z", zone: "Asia/Singapore", json(day, 8000))
        try person.post(.appleHealth, observed: "\(day)T20:00:00Z", zone: "Africa/Lagos", json(day, 6900))
        let found = try person.allDays()
        #expect(
            found.mapValues { $0.values[.steps] } == [
                day.advanced(by: -1): 70_000, day: 69_000, day.advanced(by: 1): 75_000,
            ]
        )
        #expect(try person.rows(day).count == 1)
    }

    @Test func `B5 the day on which Berlin's clocks go back is one row`() throws {
        let change = Self.lastSundayOfOctober(before: today)
        try person.post(.appleHealth, observed: "\(change)T01:30:00+02:00", zone: "Europe/Berlin", json(change, 400))
        try person.post(.appleHealth, observed: "\(change)T22:30:00+01:00", zone: "Europe/Berlin", json(change, 9100))
        #expect(try person.rows(change).count == 1)
        #expect(try person.allDays().mapValues { $0.values[.steps] } == [change: 91_000])
    }

    @Test(arguments: [180, 3 * 3600, 79 * 365 * 86_400])
    func `B6 a reading from the future is taken as of now, and does not win for ever`(seconds: Int) throws {
        let now = Instant.present
        let future = now.advanced(bySeconds: seconds)
        try person.post(.appleHealth, observed: future.description, json(day, 5000))
        #expect(try person.canonical(day)?.values == [.steps: 50_000])
        try person.post(.appleHealth, json(day, 4000))
        #expect(try person.canonical(day)?.values == [.steps: 40_000])
    }

    @Test func `B7 a day is final once it was read after its end`() throws {
        try person.post(.appleHealth, observed: "\(day)T23:10:00Z", json(day, 6100))
        #expect(try person.canonical(day)?.isFinal == false)
        try person.post(.appleHealth, observed: "\(day.advanced(by: 1))T08:00:00Z", json(day, 7900))
        let canonical = try #require(try person.canonical(day))
        #expect(canonical.isFinal && canonical.values == [.steps: 79_000])
    }

    private static func lastSundayOfOctober(before today: CalendarDay) -> CalendarDay {
        var day = today.advanced(by: -1)
        // 1970-01-01 was a Thursday.
        while !(day.civil.month == 10 && day.civil.day > 24 && (day.daysSinceEpoch + 4) % 7 == 0) {
            day = day.advanced(by: -1)
        }
        return day
    }
}
