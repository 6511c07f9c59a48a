import Domain
import Testing

@Suite struct `Calendar days` {
    @Test func `civil dates and day numbers agree over four centuries`() throws {
        var day = try #require(CalendarDay("1900-01-01"))
        #expect(day.daysSinceEpoch == -25_567)
        for _ in 0..<146_097 {
            let (year, month, dayOfMonth) = day.civil
            #expect(CalendarDay(year: year, month: month, day: dayOfMonth) == day)
            day = day.advanced(by: 1)
        }
        #expect(day.description == "2300-01-01")
    }

    @Test(arguments: [
        "2026-02-30", "2026-9-2", "2026-13-01", "2026-00-10", "2026-01-00", "26-01-01", "", "2026-02-29", "2026/01/01",
        " 2026-01-01",
    ])
    func `what the calendar does not have is refused`(text: String) {
        #expect(CalendarDay(text) == nil)
    }

    @Test func `the leap day and the year zero are read (B3)`() {
        #expect(CalendarDay("2024-02-29")?.description == "2024-02-29")
        #expect(CalendarDay("0000-01-01")?.description == "0000-01-01")
        #expect(CalendarDay("1970-01-01")?.daysSinceEpoch == 0)
    }

    @Test func `the same instant is another day in Tokyo and in Los Angeles (B1)`() throws {
        let tokyoMorning = try #require(Instant(rfc3339: "2026-05-13T22:30:00Z"))
        #expect(tokyoMorning.day(secondsFromUTC: 9 * 3600).description == "2026-05-14")
        let angelesEvening = try #require(Instant(rfc3339: "2026-05-14T03:00:00Z"))
        #expect(angelesEvening.day(secondsFromUTC: -7 * 3600).description == "2026-05-13")
    }

    @Test func `days before 1970 round towards the past`() {
        #expect(Instant(microseconds: -1).day(secondsFromUTC: 0).description == "1969-12-31")
    }

    @Test(arguments: [
        ("2026-09-02T21:14:05Z", "2026-09-02T21:14:05.000000Z"),
        ("2026-09-02T21:14:05.1234567+02:00", "2026-09-02T19:14:05.123456Z"),
        ("2026-09-02t21:14:05.5-05:30", "2026-09-03T02:44:05.500000Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000000Z"),
    ])
    func `instants are read with their zone and written in UTC`(text: String, expected: String) {
        #expect(Instant(rfc3339: text)?.description == expected)
    }

    @Test(arguments: [
        "2026-09-02T21:14:05", "2026-09-02 21:14:05Z", "2026-09-02T24:00:00Z", "2026-09-02T21:60:00Z",
        "2026-09-02T21:14:05.Z",
        "2026-09-02T21:14:05+2:00", "2026-09-02T21:14:05+02:00x", "2026-02-30T00:00:00Z", "x",
        "2026-09-02T21:14:05.123456789012345678901Z",
    ])
    func `malformed instants are refused`(text: String) {
        #expect(Instant(rfc3339: text) == nil)
    }

    @Test func `extreme instants saturate and do not trap`() {
        for instant in [Instant(microseconds: .max), Instant(microseconds: .min)] {
            _ = instant.description
            _ = instant.day(secondsFromUTC: 50_400)
            _ = instant.advanced(bySeconds: .max)
            _ = instant.advanced(bySeconds: .min)
            _ = Version(observedAt: instant, receivedAt: instant, event: EventID(high: 0, low: 0))
        }
    }

    @Test func `UUIDs keep their order and their text`() throws {
        let text = "0192f0c1-7e1a-7b3c-8d4e-0123456789ab"
        let id = try #require(UUID128(text))
        #expect(id.description == text)
        #expect(UUID128(text.uppercased()) == id)
        var random = SystemRandomNumberGenerator()
        for _ in 0..<1000 {
            let id = UUID128(high: random.next(), low: random.next())
            #expect(UUID128(id.description) == id && id.description.lowercased() == id.description)
            #expect((0..<36).map { id.ascii[$0] } == Array(id.description.utf8))
        }
        #expect(UUID128("0192f0c1-7e1a-7b3c-8d4e-0123456789ag") == nil)
        #expect(UUID128("0192f0c17e1a7b3c8d4e0123456789ab") == nil)
        #expect(UUID128(high: 1, low: 0) > UUID128(high: 0, low: .max))
        let event = UUID128.version7(at: Instant(microseconds: 1_700_000_000_123_456), random: (.max, .max))
        #expect(event.description == "018bcfe5-687b-7fff-bfff-ffffffffffff")
    }
}

@Suite struct `Versions` {
    private let event = EventID(high: 0, low: 0x8000_0000_0000_0abc)
    private let received = Instant(microseconds: 1_780_000_000_000_000)

    @Test func `a later observation is a larger version, whatever the event`() {
        let early = Version(
            observedAt: received.advanced(bySeconds: -10),
            receivedAt: received,
            event: EventID(high: 0, low: .max)
        )
        let late = Version(
            observedAt: received.advanced(bySeconds: -9),
            receivedAt: received,
            event: EventID(high: 0, low: 0)
        )
        #expect(late > early)
    }

    @Test(arguments: [180, 3 * 3600, 80 * 366 * 86_400])
    func `an observation ahead of our clock is clamped to it (B6)`(seconds: Int) {
        let ahead = Version(observedAt: received.advanced(bySeconds: seconds), receivedAt: received, event: event)
        #expect(ahead == Version(observedAt: nil, receivedAt: received, event: event))
        #expect(ahead < Version(observedAt: nil, receivedAt: received.advanced(bySeconds: 1), event: event))
    }

    @Test func `nothing is older than 2020, and every version is positive`() {
        let ancient = Version(
            observedAt: Instant(microseconds: 0),
            receivedAt: received,
            event: EventID(high: 0, low: 0)
        )
        #expect(ancient.rawValue == 1)
        #expect(ancient.instant == .earliest)
        #expect(Version(observedAt: nil, receivedAt: received, event: event).instant == received)
    }

    @Test func `a deletion's watermark lies a minute past its arrival`() {
        let watermark = Version.watermark(deletedAt: received)
        #expect(Version(observedAt: nil, receivedAt: received.advanced(bySeconds: 59), event: event) < watermark)
        #expect(Version(observedAt: nil, receivedAt: received.advanced(bySeconds: 61), event: event) > watermark)
    }
}
