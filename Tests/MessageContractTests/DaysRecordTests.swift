import Domain
import JSON
import Testing

@testable import MessageContract

private let user = UserID(high: 0x0123_4567_89ab_4def, low: 0x8123_4567_89ab_cdef)
private let event = EventID(high: 0x0199_0000_0000_7abc, low: 0x8000_0000_0000_0123)

/// A record as a broker hands it out, before it is decoded.
struct RawRecord {
    var key: [UInt8]? = Array(user.description.utf8)
    var value: [UInt8]?
    var schema: String? = "days/1"
    var eventID: String? = event.description
    var receivedAt: String? = "2026-09-02T21:14:06.000000Z"
    var appendTime: Instant?

    init(_ value: String) {
        self.value = Array(value.utf8)
    }

    init(_ record: DaysRecord) {
        value = record.encoded()
    }

    func decoded(by decoder: DaysRecordDecoder) -> Result<DecodedDays, PoisonReason> {
        func withBytes<Result>(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) -> Result) -> Result {
            guard let bytes else { return body(nil) }
            return bytes.withUnsafeBytes { body($0) }
        }
        func withText<Result>(_ text: String?, _ body: (UnsafeRawBufferPointer?) -> Result) -> Result {
            withBytes(text.map { Array($0.utf8) }, body)
        }
        func named(_ name: StaticString) -> UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        }
        return withBytes(key) { key in
            withBytes(value) { value in
                withText(schema) { schema in
                    withText(eventID) { eventID in
                        withText(receivedAt) { receivedAt in
                            var headers = RecordHeaders()
                            if let schema { headers.note(name: named("schema"), value: schema) }
                            if let eventID { headers.note(name: named("event-id"), value: eventID) }
                            if let receivedAt { headers.note(name: named("received-at"), value: receivedAt) }
                            headers.note(name: named("traceparent"), value: nil)
                            return decoder.decode(key: key, value: value, headers: headers, appendTime: appendTime)
                        }
                    }
                }
            }
        }
    }

    func decoded() throws -> Result<DecodedDays, PoisonReason> {
        decoded(by: try DaysRecordDecoder())
    }

    func reason() throws -> PoisonReason? {
        guard case .failure(let reason) = try decoded() else { return nil }
        return reason
    }
}

private func record(_ day: String) -> RawRecord {
    RawRecord(#"{"source":"apple_health","local_date":"2026-09-03","days":["# + day + "]}")
}

struct DaysRecordTests {
    @Test func `what is encoded decodes to the same, for any values`() throws {
        let decoder = try DaysRecordDecoder()
        var generator = SplitMix(state: 42)
        for round in 0..<2_000 {
            var days: [DaysRecord.Day] = []
            for offset in 0..<Int.random(in: 0...40, using: &generator) {
                var values = MetricValues()
                for metric in Metric.allCases where Bool.random(using: &generator) {
                    let definition = MetricLedger[metric]
                    var tenths = Int32.random(in: definition.tenths, using: &generator)
                    if definition.isWhole { tenths = tenths / 10 * 10 }
                    if tenths == 0, definition.zeroIsNeverRead { continue }
                    values[metric] = tenths
                }
                days.append(.init(date: CalendarDay(daysSinceEpoch: 20_698).advanced(by: -offset), values: values))
            }
            let origins = ["", "com.example.app", "a \"quoted\" \\ origin\u{1}é", String(repeating: "ö", count: 64)]
            let original = DaysRecord(
                source: Source.allCases[round % Source.allCases.count],
                origin: origins[round % origins.count],
                observedAt: round % 3 == 0 ? nil : Instant(rfc3339: "2026-09-02T20:14:05.123456Z"),
                timeZone: "Europe/Athens",
                localDate: CalendarDay(daysSinceEpoch: 20_698),
                days: days
            )
            let decoded = try RawRecord(original).decoded(by: decoder).get()
            #expect(decoded.user == user)
            #expect(decoded.event == event)
            #expect(decoded.source == original.source)
            #expect(decoded.origin == original.origin)
            #expect(decoded.localDate == original.localDate)
            #expect(decoded.receivedAt == Instant(rfc3339: "2026-09-02T21:14:06Z"))
            let version = Version(observedAt: original.observedAt, receivedAt: decoded.receivedAt, event: event)
            #expect(decoded.version == version)
            #expect(decoded.readings.map(\.day) == days.map(\.date))
            #expect(decoded.readings.map(\.values) == days.map(\.values))
            #expect(decoded.readings.allSatisfy { $0.version == version && $0.closed == ($0.day < original.localDate) })
        }
    }

    @Test func `a full day fits into what the encoder promises`() {
        var values = MetricValues()
        for metric in Metric.allCases { values[metric] = MetricLedger[metric].tenths.upperBound - 1 }
        let day = DaysRecord.Day(date: CalendarDay(daysSinceEpoch: 20_698), values: values)
        let one = DaysRecord(source: .healthConnect, timeZone: "UTC", localDate: day.date, days: [day]).encoded().count
        let two = DaysRecord(source: .healthConnect, timeZone: "UTC", localDate: day.date, days: [day, day]).encoded()
            .count
        #expect(two - one <= DaysRecord.largestDayBytes)
        #expect(RecordLimits.days * DaysRecord.largestDayBytes < RecordLimits.valueBytes)
    }

    @Test func `unknown fields and nulls are ignored`() throws {
        let text = #"""
            {"source":"oura","new":{"a":[1,{"b":2}]},"origin":null,"observed_at":null,
             "days":[{"date":"2026-09-01","steps":8421.0,"mood":"good","hrv_sdnn_ms":null,"sleep_minutes":0,
             "active_energy_kcal":12.25}]}
            """#
        let decoded = try RawRecord(text).decoded().get()
        #expect(decoded.origin.isEmpty)
        #expect(decoded.localDate == CalendarDay("2026-09-02"))
        #expect(decoded.readings.first?.values == [.steps: 84_210, .activeEnergy: 123])
        #expect(decoded.readings.first?.closed == true)
    }

    @Test func `keys may change their places from day to day`() throws {
        let text = #"""
            {"source":"oura","days":[{"date":"2026-09-01","steps":1,"water_ml":2},
             {"water_ml":3,"steps":4,"date":"2026-08-31"},{"x":1,"steps":5,"date":"2026-08-30"},
             {"date":"2026-08-29","average_heart_rate_bpm":61,"resting_heart_rate_bpm":51},
             {"date":"2026-08-28","resting_heart_rate_bpm":52,"average_heart_rate_bpm":62,"resting_heart_late_bpm":1}]}
            """#
        let readings = try RawRecord(text).decoded().get().readings
        #expect(
            readings.map(\.values) == [
                [.steps: 10, .water: 20], [.steps: 40, .water: 30], [.steps: 50],
                [.averageHeartRate: 610, .restingHeartRate: 510], [.averageHeartRate: 620, .restingHeartRate: 520],
            ]
        )
    }

    @Test(arguments: [
        (#"{"steps":1}"#, PoisonReason.badDate), (#"{"date":"2026-02-30"}"#, .badDate), (#"{"date":1}"#, .badDate),
        (#"{"date":"2026-9-2"}"#, .badDate), (#"{"date":"2041-03-02","steps":1}"#, .badDate),
        (#"{"date":"2026-09-05"}"#, .badDate), (#"{"date":"2026-09-01","steps":-5}"#, .outOfRange),
        (#"{"date":"2026-09-01","steps":100001}"#, .outOfRange), (#"{"date":"2026-09-01","steps":1e30}"#, .outOfRange),
        (#"{"date":"2026-09-01","steps":18446744073709551615}"#, .outOfRange),
        (#"{"date":"2026-09-01","steps":1e130000}"#, .badJSON), (#"{"date":"2026-09-01","steps":88.07}"#, .badValue),
        (#"{"date":"2026-09-01","steps":"8421"}"#, .badValue), (#"{"date":"2026-09-01","steps":[1]}"#, .badValue),
        (#"{"date":"2026-09-01","hrv_sdnn_ms":0.5}"#, .outOfRange),
        (#"{"date":"2026-09-01","steps":1,"steps":2}"#, .duplicateKey),
        (#"{"date":"2026-09-01","date":"2026-09-01"}"#, .duplicateKey), ("[]", .badShape), ("7", .badShape),
        (#"{"x":[[[[[[[[1]]]]]]]]}"#, .badJSON), (#"{"date":"2026-09-01","x":"\u0000"}"#, .badJSON), ("NaN", .badJSON),
    ])
    func `a bad day is poison with its reason`(day: String, reason: PoisonReason) throws {
        #expect(try record(day).reason() == reason)
    }

    @Test(arguments: [
        ("", PoisonReason.badJSON), ("garbage", .badJSON), ("[]", .badShape), ("{}", .badSource),
        (#"{"source":"fitbit","days":[]}"#, .badSource), (#"{"source":"oura"}"#, .badShape),
        (#"{"source":"oura","days":{}}"#, .badShape), (#"{"source":"oura","days":[],"days":[]}"#, .duplicateKey),
        (#"{"source":"oura","origin":7,"days":[]}"#, .badOrigin),
        (#"{"source":"oura","observed_at":"yesterday","days":[]}"#, .badObservedAt),
        (#"{"source":"oura","local_date":"2026-09-05","days":[]}"#, .badDate),
        (#"{"source":"oura","local_date":"2026-13-05","days":[]}"#, .badDate),
    ])
    func `a bad record is poison with its reason`(value: String, reason: PoisonReason) throws {
        #expect(try RawRecord(value).reason() == reason)
    }

    @Test func `too many days or too long an origin is poison`() throws {
        let day = #"{"date":"2026-09-01"}"#
        let days = Array(repeating: day, count: 401).joined(separator: ",")
        #expect(try record(days).reason() == .tooLarge)
        let origin = String(repeating: "x", count: 129)
        #expect(try RawRecord(#"{"source":"oura","origin":"\#(origin)","days":[]}"#).reason() == .badOrigin)
    }

    @Test func `headers and key are checked`() throws {
        let good = record(#"{"date":"2026-09-01","steps":1}"#)
        #expect(try good.reason() == nil)
        func changed(_ change: (inout RawRecord) -> Void) throws -> PoisonReason? {
            var record = good
            change(&record)
            return try record.reason()
        }
        #expect(try changed { $0.key = nil } == .badKey)
        #expect(try changed { $0.key = Array("user-1".utf8) } == .badKey)
        #expect(try changed { $0.value = nil } == .missingValue)
        #expect(try changed { $0.schema = nil } == .missingHeader)
        #expect(try changed { $0.schema = "days/2" } == .unknownSchema)
        #expect(try changed { $0.schema = "heartbeat/1" } == .unknownSchema)
        #expect(try changed { $0.eventID = nil } == .missingHeader)
        #expect(try changed { $0.eventID = "x" } == .badEventID)
        #expect(try changed { $0.receivedAt = nil } == .missingHeader)
        #expect(try changed { $0.receivedAt = "2026-09-02" } == .badReceivedAt)
        #expect(try changed { $0.receivedAt = "0001-01-01T00:00:00Z" } == .badReceivedAt)
    }

    @Test func `a clock more than five minutes ahead of the broker is poison`() throws {
        var late = record(#"{"date":"2026-09-01","steps":1}"#)
        late.appendTime = Instant(rfc3339: "2026-09-02T20:14:06Z")
        #expect(try late.reason() == .clock)
        late.appendTime = Instant(rfc3339: "2026-09-02T21:09:06Z")
        #expect(try late.reason() == nil)
        late.appendTime = nil
        #expect(try late.reason() == nil)
    }

    @Test func `a reading observed in the future is clamped and does not win for ever`() throws {
        let text = #"{"source":"oura","observed_at":"2105-01-01T00:00:00Z","days":[{"date":"2026-09-01","steps":1}]}"#
        let decoded = try RawRecord(text).decoded().get()
        #expect(decoded.version == Version(observedAt: nil, receivedAt: decoded.receivedAt, event: event))
    }

    @Test func `mutated records are decoded or poison and never trap`() throws {
        let decoder = try DaysRecordDecoder()
        let text =
            #"{"source":"oura","observed_at":"2026-09-02T20:00:00Z","days":[{"date":"2026-09-01","steps":1.5e3}]}"#
        let source = Array(text.utf8)
        var generator = SplitMix(state: 3)
        for _ in 0..<20_000 {
            var raw = RawRecord(text)
            var bytes = source
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] =
                    source[
                        Int.random(in: 0..<source.count, using: &generator)
                    ]
            }
            raw.value = bytes
            _ = raw.decoded(by: decoder)
        }
    }
}

/// Records as our own writers make them are read in one pass, and all others through simdjson.
@Suite struct PlainRecordTests {
    private static let today = CalendarDay(daysSinceEpoch: 20_698)

    /// As an own writer makes it, of random days.
    private func value(_ metrics: [Metric], _ generator: inout SplitMix) -> [UInt8] {
        let days = (0..<Int.random(in: 0...4, using: &generator)).map { age -> DaysRecord.Day in
            var values = MetricValues()
            for metric in metrics where Bool.random(using: &generator) {
                let tenths = Int32.random(in: MetricLedger[metric].tenths, using: &generator)
                values[metric] = MetricLedger[metric].isWhole ? tenths / 10 * 10 : tenths
            }
            return .init(date: Self.today.advanced(by: -age), values: values)
        }
        let record = DaysRecord(
            source: .oura,
            observedAt: nil,
            timeZone: "Europe/Rome",
            localDate: Self.today,
            days: days
        )
        return record.encoded()
    }

    @Test func `what our own writers make is plain, and the same either way`() throws {
        let decoder = try DaysRecordDecoder()
        var generator = SplitMix(state: 11)
        for _ in 0..<500 {
            let bytes = value(Metric.allCases, &generator)
            #expect(plainDays(in: bytes) != nil)
            try expectTheSame(bytes, decoder)
        }
    }

    @Test func `one byte more, less or other: what is plain still means the same either way`() throws {
        let decoder = try DaysRecordDecoder()
        var generator = SplitMix(state: 12)
        let others = Array(#"0123456789.,:"{}[]\e-+ nul"#.utf8)
        var plain = 0
        for _ in 0..<20_000 {
            var bytes = value([.steps, .activeEnergy, .sleepMinutes, .hrvSDNN], &generator)
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let place = Int.random(in: 0..<bytes.count, using: &generator)
                let other = others[Int.random(in: 0..<others.count, using: &generator)]
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: bytes[place] = other
                case 1: bytes.insert(other, at: place)
                default: bytes.remove(at: place)
                }
            }
            if plainDays(in: bytes) != nil { plain += 1 }
            try expectTheSame(bytes, decoder)
        }
        #expect(plain > 1000, "\(plain)")
    }

    /// White space behind the value is not plain, and means nothing.
    private func expectTheSame(_ bytes: [UInt8], _ decoder: DaysRecordDecoder) throws {
        var (plain, spaced) = (RawRecord(""), RawRecord(""))
        plain.value = bytes
        spaced.value = bytes + [0x20]
        #expect(plainDays(in: bytes + [0x20]) == nil)
        let (left, right) = (plain.decoded(by: decoder), spaced.decoded(by: decoder))
        #expect(left == right, "\(String(decoding: bytes, as: UTF8.self))")
    }

    /// How many days are read in one pass; nil where the value is not plain.
    private func plainDays(in bytes: [UInt8]) -> Int? {
        let padded = bytes + Array(repeating: 0x2c, count: JSONParser.padding)
        let bounds = UnsafeMutablePointer<MetricBounds>.allocate(capacity: Metric.count)
        defer { bounds.deallocate() }
        let all = MetricBounds.all()
        for index in 0..<Metric.count { (bounds + index).initialize(to: all[index]) }
        var month = MonthMemo()
        return padded.withUnsafeBytes { padded in
            let value = UnsafeRawBufferPointer(rebasing: padded[..<bytes.count])
            guard var text = PlainRecordText(padded: value), text.readFields() != nil else { return nil }
            let stamp = RecordStamp(
                source: .oura,
                origin: "",
                version: Version(rawValue: 1),
                localDate: Self.today,
                lastDate: Self.today
            )
            return text.readDays(stamp, MetricKeys(), bounds, &month)?.count
        }
    }
}

struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}
