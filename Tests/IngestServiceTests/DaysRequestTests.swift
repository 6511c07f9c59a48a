import Authentication
import Domain
import IngestService
import JSON
import MessageContract
import Testing
import TimeZones

let now = Instant(rfc3339: "2026-09-02T21:14:06Z") ?? .earliest
let event = EventID(high: 0x0199_0000_0000_7abc, low: 0x8000_0000_0000_0123)

/// Bytes with what simdjson wants behind them.
func withPadded<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    let count = text.utf8.count
    let bytes = Array(text.utf8) + Array(repeating: 0x20, count: JSONParser.padding)
    return try bytes.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
}

func decode(_ text: String, now: Instant = now, zone: String = "UTC") throws -> Result<DaysRequest, RequestProblem> {
    let decoder = try DaysRequestDecoder(zones: ZoneTable())
    return withPadded(text) { body in
        do throws(RequestProblem) {
            return .success(try decoder.decode(padded: body, DaysContext(receivedAt: now, fallbackZone: zone)))
        } catch {
            return .failure(error)
        }
    }
}

func request(_ days: String, _ more: String = "", now: Instant = now, zone: String = "UTC") throws -> DaysRequest {
    try decode(#"{"source":"apple_health"\#(more),"days":[\#(days)]}"#, now: now, zone: zone).get()
}

private func code(_ text: String) throws -> String? {
    guard case .failure(let problem) = try decode(text) else { return nil }
    return
        "\(problem.status) \(problem.code) \(problem.errors.first?.field ?? "-") \(problem.errors.first?.code.description ?? "-")"
}

struct DaysRequestTests {
    @Test func `a day is read with all it says`() throws {
        let text = #"""
            {"source":"health_connect","origin":"com.example.watch","observed_at":"2026-09-02T20:14:05Z",
             "time_zone":"Europe/Athens","app":"ignored","days":[
             {"date":"2026-09-02","steps":11842,"active_energy_kcal":612.04,"sleep_minutes":431,"mood":"ignored"}]}
            """#
        let read = try decode(text).get()
        #expect(read.source == .healthConnect && read.origin == "com.example.watch")
        #expect(read.observedAt == Instant(rfc3339: "2026-09-02T20:14:05Z"))
        #expect(read.timeZone == "Europe/Athens")
        #expect(read.today == CalendarDay("2026-09-03"))
        #expect(read.localDate == CalendarDay("2026-09-02"))
        #expect(read.days.map(\.values) == [[.steps: 118_420, .activeEnergy: 6120, .sleepMinutes: 4310]])
        #expect(read.skipped.isEmpty && read.errors.isEmpty && read.badDays == 0)
    }

    @Test(
        arguments: [
            ("8421.0", Int32(84_210), nil), ("1e3", 10_000, nil), ("0.5e1", 50, nil), ("100000", 1_000_000, nil),
            ("88.07", nil, "not_whole"), ("\"8421\"", nil, "not_a_number"), ("true", nil, "not_a_number"),
            ("[]", nil, "not_a_number"), ("-5", nil, "out_of_range"), ("100001", nil, "out_of_range"),
            ("1e30", nil, "out_of_range"), ("9223372036854775807", nil, "out_of_range"),
            ("18446744073709551615", nil, "out_of_range"), ("-9223372036854775808", nil, "out_of_range"),
        ] as [(String, Int32?, String?)]
    )
    func `counts are whole, in any form of JSON, and neighbours are kept`(
        steps: String,
        tenths: Int32?,
        code: String?
    ) throws {
        let neighbours = (#"{"date":"2026-09-01","steps":7}"#, #"{"date":"2026-08-31","steps":8}"#)
        let read = try request(#"\#(neighbours.0),{"date":"2026-09-02","steps":\#(steps)},\#(neighbours.1)"#)
        let day = read.days.first { $0.date == CalendarDay("2026-09-02") }
        #expect(day?.values[.steps] == tenths)
        #expect(read.errors.map(\.code.description) == (code.map { [$0] } ?? []))
        #expect(read.errors.allSatisfy { $0.field == "days[1].steps" && $0.index == 1 })
        #expect(read.days.count == (tenths == nil ? 2 : 3))
    }

    @Test(arguments: [
        (#"{"source":"oura","days":[{"date":"2026-09-02","steps":1e130000}]}"#, "400 bad_number - -"),
        (#"{"source":"oura","days":[{"date":"2026-09-02","steps":NaN}]}"#, "400 bad_json - -"),
        ("", "400 empty - -"), ("[]", "400 bad_shape  bad_shape"), ("7", "400 bad_shape  bad_shape"),
        (#"{"days":[]}"#, "400 bad_shape source bad_shape"),
        (#"{"source":7,"days":[]}"#, "400 bad_shape source bad_shape"),
        (#"{"source":"oura"}"#, "400 bad_shape days bad_shape"),
        (#"{"source":"oura","days":{}}"#, "400 bad_shape days bad_shape"),
        (#"{"source":"fitbit","days":[{}]}"#, "422 invalid source unknown_source"),
        (#"{"source":"oura","source":"oura","days":[{}]}"#, "422 invalid source duplicate_key"),
        (#"{"source":"oura","days":[]}"#, "422 invalid days no_days"),
        (#"{"source":"oura","observed_at":"now","days":[{}]}"#, "422 invalid observed_at bad_time"),
        (#"{"source":"oura","observed_at":1,"days":[{}]}"#, "400 bad_shape observed_at bad_shape"),
        (#"{"source":"oura","time_zone":"Mars/Base","days":[{}]}"#, "422 invalid time_zone unknown_time_zone"),
        (#"{"source":"oura","time_zone":"../../etc/passwd","days":[{}]}"#, "422 invalid time_zone unknown_time_zone"),
        (#"{"source":"oura","zeros":"maybe","days":[{}]}"#, "422 invalid zeros unknown_value"),
        (#"{"source":"oura","origin":["x"],"days":[{}]}"#, "400 bad_shape origin bad_shape"),
        (#"{"source":"oura","origin":"a\u0000b","days":[{}]}"#, "400 nul - -"),
        (#"{"source":"oura","x":[[[[[[[[[1]]]]]]]]],"days":[{}]}"#, "400 too_deep - -"),
    ])
    func `what is wrong with the request as a whole is a problem with its code`(text: String, expected: String) throws {
        #expect(try code(text) == expected)
    }

    @Test func `between 1 and 400 days are taken`() throws {
        let days = (0..<401).map { #"{"date":"\#(CalendarDay(daysSinceEpoch: 20_698).advanced(by: -$0))","steps":1}"# }
        #expect(
            try code(#"{"source":"oura","days":[\#(days.joined(separator: ","))]}"#) == "422 invalid days too_many_days"
        )
        let read = try request(days.prefix(400).joined(separator: ","))
        #expect(read.days.count == 400)
        let plan = try LanePlan(read)
        #expect(plan.records.map(\.lane) == [.live, .history])
        #expect(plan.records.allSatisfy { $0.value.count <= RecordLimits.valueBytes })
        let long = String(repeating: "o", count: 129)
        #expect(try code(#"{"source":"oura","origin":"\#(long)","days":[{}]}"#) == "422 invalid origin too_long")
    }

    @Test func `what a day does wrong is told by field, and never its value`() throws {
        let days = [
            "7", "{}", #"{"date":7}"#, #"{"date":"2026-02-30"}"#, #"{"date":"2026-9-2"}"#,
            #"{"date":"2026-09-02","steps":1,"steps":2}"#, #"{"date":"2026-09-02","date":"2026-09-02","steps":1}"#,
            #"{"date":"2026-09-02","hrv_sdnn_ms":777.7,"steps":-31337}"#, #"{"date":"2026-09-02","steps":5}"#,
        ]
        let read = try request(days.joined(separator: ","))
        #expect(read.days.map(\.values) == [[.steps: 50]])
        #expect(read.badDays == 8)
        #expect(
            read.errors.map { "\($0.field) \($0.code)" } == [
                "days[0] not_an_object", "days[1].date missing_date", "days[2].date bad_date", "days[3].date bad_date",
                "days[4].date bad_date", "days[5].steps duplicate_key", "days[6].date duplicate_key",
                "days[7].hrv_sdnn_ms out_of_range", "days[7].steps out_of_range",
            ]
        )
        let answer = String(decoding: DaysAnswer(read, event: event).body(positions: []), as: UTF8.self)
        #expect(!answer.contains("31337") && !answer.contains("777"))
    }

    @Test func `many bad days are listed once each`() throws {
        let bad = #"{"date":"x","steps":-1,"water_ml":-1,"hrv_sdnn_ms":-1}"#
        let read = try request(Array(repeating: bad, count: 400).joined(separator: ","))
        #expect(read.badDays == 400)
        #expect(read.errors.count <= 800)
        #expect(Set(read.errors.compactMap(\.index)).count == 400)
    }

    @Test func `values are rounded to one decimal, half away from zero`() throws {
        let read = try request(
            #"{"date":"2026-09-02","active_energy_kcal":0.25,"distance_m":1234.56,"hrv_rmssd_ms":92.04}"#
        )
        #expect(read.days.first?.values == [.activeEnergy: 3, .distance: 12_346, .hrvRMSSD: 920])
    }

    @Test func `a value just outside its range is not rounded into it`() throws {
        let read = try request(
            #"{"date":"2026-09-02","hrv_sdnn_ms":0.97},{"date":"2026-09-01","sleep_minutes":1440.04}"#
        )
        #expect(read.errors.map(\.code.description) == ["out_of_range", "out_of_range"])
    }

    @Test func `a zero is a missing read, unless the sender observed it`() throws {
        let day = #"{"date":"2026-09-02","steps":0,"hrv_sdnn_ms":0,"resting_heart_rate_bpm":0.0,"sleep_minutes":-0.0}"#
        let missing = try request(day)
        #expect(missing.days.isEmpty && missing.hasGoodDate)
        #expect(missing.skipped.map(\.metric) == [.steps, .hrvSDNN, .restingHeartRate, .sleepMinutes])
        #expect(
            missing.skipped.allSatisfy { $0.reason == .zero && $0.date == CalendarDay("2026-09-02") && $0.index == 0 }
        )
        let observed = try request(day, #","zeros":"observed""#)
        #expect(observed.days.map(\.values) == [[.steps: 0]])
        #expect(observed.skipped.map(\.metric) == [.hrvSDNN, .restingHeartRate, .sleepMinutes])
    }

    @Test func `an absent metric and a null say nothing`() throws {
        let read = try request(#"{"date":"2026-09-02","steps":null,"water_ml":5},{"date":"2026-09-01","steps":null}"#)
        #expect(read.days.map(\.values) == [[.water: 50]])
        #expect(read.skipped.map(\.reason) == [.empty])
    }

    @Test func `of a date that occurs twice the last day with values wins`() throws {
        let read = try request(
            #"{"date":"2026-09-02","steps":1,"water_ml":3},{"date":"2026-09-01","steps":2},{"date":"2026-09-02","steps":4},{"date":"2026-09-02"}"#
        )
        #expect(read.days.map(\.values) == [[.steps: 40], [.steps: 20]])
        #expect(read.skipped.map(\.reason) == [.duplicateDate, .empty])
        #expect(read.skipped.map(\.index) == [0, 3])
    }

    @Test func `dates too old or too far ahead are skipped and listed`() throws {
        let dates = ["2041-03-02", "2026-09-04", "2026-09-03", "2025-07-29", "2025-07-28", "0000-01-01", "9999-12-31"]
        let read = try request(dates.map { #"{"date":"\#($0)","steps":1,"water_ml":0}"# }.joined(separator: ","))
        #expect(read.days.map(\.date) == [CalendarDay("2026-09-03"), CalendarDay("2025-07-29")])
        let whole = read.skipped.filter { $0.metric == nil }
        #expect(whole.map(\.reason) == [.tooFarAhead, .tooFarAhead, .tooOld, .tooOld, .tooFarAhead])
        #expect(whole.map(\.index) == [0, 1, 4, 5, 6])
        #expect(read.skipped.count == whole.count + 2)
    }

    @Test func `a leap day is a day, and 30 February is not`() throws {
        let leap = Instant(rfc3339: "2024-03-01T12:00:00Z") ?? now
        let read = try request(#"{"date":"2024-02-29","steps":1},{"date":"2024-02-30","steps":1}"#, now: leap)
        #expect(read.days.map(\.date) == [CalendarDay("2024-02-29")])
        #expect(read.errors.count == 1)
    }

    @Test func `a user east of us may be a day ahead`() throws {
        let evening = Instant(rfc3339: "2026-09-02T13:30:00Z") ?? now
        for zone in ["Pacific/Noumea", "Pacific/Kiritimati", "UTC"] {
            let read = try request(#"{"date":"2026-09-03","steps":1}"#, #","time_zone":"\#(zone)""#, now: evening)
            #expect(read.days.count == 1, "\(zone)")
        }
    }

    @Test func `one moment is two dates, in Tokyo and in Los Angeles`() throws {
        let tokyo = Instant(rfc3339: "2026-05-13T22:30:00Z") ?? now
        let first = try request(#"{"date":"2026-05-14","steps":1}"#, #","time_zone":"Asia/Tokyo""#, now: tokyo)
        #expect(first.localDate == CalendarDay("2026-05-14"))
        let angeles = Instant(rfc3339: "2026-05-14T03:00:00Z") ?? now
        let second = try request(
            #"{"date":"2026-05-13","steps":1}"#,
            #","time_zone":"America/Los_Angeles""#,
            now: angeles
        )
        #expect(second.localDate == CalendarDay("2026-05-13"))
    }

    @Test(arguments: ["2026-09-02T21:17:06Z", "2026-09-03T00:14:06Z", "2105-01-01T00:00:00Z"])
    func `a reading from the future is clamped to our clock`(observed: String) throws {
        let read = try request(#"{"date":"2026-09-02","steps":1}"#, #","observed_at":"\#(observed)""#)
        #expect(read.observedAt == now)
        #expect(read.localDate == CalendarDay("2026-09-02"))
    }

    @Test(arguments: ["0000-01-01T00:00:00+23:59", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59.9Z"])
    func `a time before the earliest is written as that, which every reader of the record takes`(
        observed: String
    ) throws {
        let body =
            #"{"source":"apple_health","observed_at":"\#(observed)","days":[{"date":"2026-09-02","steps":1}]}"#
        let days = try Sending().days("/v1/days", body)
        #expect(days.map(\.version.instant) == [.earliest])
    }

    @Test func `the zone comes from the payload, the claim, the header or the fallback`() throws {
        let header = Array("America/New_York".utf8)
        let nonsense = Array("Nowhere".utf8)
        func zone(_ payload: String?, _ claim: String?, _ header: [UInt8]?) throws -> String {
            let more = payload.map { #","time_zone":"\#($0)""# } ?? ""
            return try withPadded(#"{"source":"oura"\#(more),"days":[{"date":"2026-09-02","steps":1}]}"#) { body in
                try (header ?? []).withUnsafeBytes { bytes in
                    let context = DaysContext(
                        receivedAt: now,
                        claimedZone: claim,
                        headerZone: header == nil ? nil : bytes,
                        fallbackZone: "Asia/Tokyo"
                    )
                    return try DaysRequestDecoder(zones: ZoneTable()).decode(padded: body, context).timeZone
                }
            }
        }
        #expect(try zone("Europe/Athens", "Europe/Berlin", header) == "Europe/Athens")
        #expect(try zone(nil, "Europe/Berlin", header) == "Europe/Berlin")
        #expect(try zone(nil, "Nowhere", header) == "America/New_York")
        #expect(try zone(nil, nil, nonsense) == "Asia/Tokyo")
        #expect(try zone(nil, nil, nil) == "Asia/Tokyo")
    }

    @Test func `the phone's own steps are one origin under all its names`() throws {
        func origin(_ source: String, _ origin: String) throws -> String {
            try decode(#"{"source":"\#(source)","origin":"\#(origin)","days":[{"date":"2026-09-02","steps":1}]}"#).get()
                .origin
        }
        #expect(try origin("health_connect", "android") == "android")
        #expect(
            try origin("health_connect", "com.android.healthconnect.phone.jd5bdd37e1a8d3667a05d0abebfc4a89e")
                == "android"
        )
        #expect(try origin("health_connect", "com.android.healthconnect.phone") == "com.android.healthconnect.phone")
        #expect(try origin("oura", "com.android.healthconnect.phone.jd5") == "com.android.healthconnect.phone.jd5")
        #expect(try origin("health_connect", "") == "")
    }

    @Test func `one decoder reads request after request`() throws {
        let decoder = try DaysRequestDecoder(zones: ZoneTable())
        for round in 0..<50 {
            let days = (0..<(round % 20 + 1)).map {
                #"{"date":"\#(CalendarDay(daysSinceEpoch: 20_698).advanced(by: -$0))","steps":\#(round + 1)}"#
            }
            try withPadded(#"{"source":"oura","days":[\#(days.joined(separator: ","))]}"#) { body in
                let read = try decoder.decode(padded: body, DaysContext(receivedAt: now))
                #expect(read.days.count == days.count && read.skipped.isEmpty)
            }
        }
    }
}
