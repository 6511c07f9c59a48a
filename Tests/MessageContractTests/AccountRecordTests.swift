import Domain
import JSON
import MessageContract
import Testing

private let user = UserID(high: 0x0123_4567_89ab_4def, low: 0x8123_4567_89ab_cdef)
private let event = EventID(high: 0x0199_0000_0000_7abc, low: 0x8000_0000_0000_0123)
private let arrival = Instant(rfc3339: "2026-09-02T21:14:06Z") ?? .earliest
let hashText = String(repeating: "0f", count: 32)

/// Parts of a record of any schema, handed to a decoder as a broker would.
struct AnyRecord {
    var key: String? = user.description
    var value: [UInt8]?
    var schema: String?
    var eventID: String? = event.description
    var receivedAt: String? = arrival.description
    var appendTime: Instant?

    init(_ value: String, schema: String, key: String? = user.description) {
        self.value = Array(value.utf8)
        self.schema = schema
        self.key = key
    }

    func decode<Decoded>(
        _ body: (UnsafeRawBufferPointer?, UnsafeRawBufferPointer?, RecordHeaders, Instant?) -> Decoded
    ) -> Decoded {
        func withBytes<Result>(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) -> Result) -> Result {
            guard let bytes else { return body(nil) }
            return bytes.withUnsafeBytes { body($0) }
        }
        return withBytes(key.map { Array($0.utf8) }) { key in
            withBytes(value) { value in
                withBytes(schema.map { Array($0.utf8) }) { schema in
                    withBytes(eventID.map { Array($0.utf8) }) { eventID in
                        withBytes(receivedAt.map { Array($0.utf8) }) { receivedAt in
                            var headers = RecordHeaders()
                            headers.schema = schema
                            headers.eventID = eventID
                            headers.receivedAt = receivedAt
                            return body(key, value, headers, appendTime)
                        }
                    }
                }
            }
        }
    }
}

private func account(_ text: String) -> AnyRecord { AnyRecord(text, schema: "account/1") }
private func device(_ text: String) -> AnyRecord { AnyRecord(text, schema: "device/1", key: hashText) }

private func decodeAccount(_ record: AnyRecord) throws -> Result<DecodedAccount, PoisonReason> {
    let decoder = try AccountRecordDecoder()
    return record.decode { decoder.decode(key: $0, value: $1, headers: $2, appendTime: $3) }
}

private func decodeDevice(_ record: AnyRecord) throws -> Result<DecodedDevice, PoisonReason> {
    let decoder = try DeviceRecordDecoder()
    return record.decode { decoder.decode(key: $0, value: $1, headers: $2, appendTime: $3) }
}

struct AccountRecordTests {
    private static var everyRecord: [AccountRecord] {
        var all: [AccountRecord] = [.delete]
        for source in Source.allCases {
            all += [.disconnect(source, removesData: true), .disconnect(source, removesData: false)]
        }
        for metric in Metric.allCases {
            all.append(.preference(metric, source: nil))
            all += Source.allCases.map { .preference(metric, source: $0) }
        }
        return all
    }

    @Test func `every account record reads back as it was`() throws {
        for record in Self.everyRecord {
            var raw = account("")
            raw.value = record.encoded()
            let decoded = try decodeAccount(raw).get()
            let expected = DecodedAccount(
                user: user,
                record: record,
                envelope: Envelope(event: event, receivedAt: arrival)
            )
            #expect(decoded == expected)
            #expect(decoded.version == Version(observedAt: nil, receivedAt: arrival, event: event))
        }
    }

    @Test func `only what removes has a watermark, a minute past its arrival`() throws {
        func watermark(_ record: AccountRecord) -> Version? {
            DecodedAccount(user: user, record: record, envelope: Envelope(event: event, receivedAt: arrival)).watermark
        }
        #expect(watermark(.delete) == .watermark(deletedAt: arrival))
        #expect(watermark(.disconnect(.oura, removesData: true)) == .watermark(deletedAt: arrival))
        #expect(watermark(.disconnect(.oura, removesData: false)) == nil)
        #expect(watermark(.preference(.steps, source: .oura)) == nil)
    }

    @Test func `a record says what an operator can read`() {
        func text(_ record: AccountRecord) -> String { String(decoding: record.encoded(), as: UTF8.self) }
        #expect(text(.delete) == #"{"kind":"delete"}"#)
        #expect(text(.disconnect(.oura, removesData: true)) == #"{"kind":"disconnect","source":"oura","data":true}"#)
        #expect(
            text(.preference(.steps, source: nil)) == #"{"kind":"preference","metric":"steps","source":null}"#
        )
    }

    @Test(arguments: [
        ("{}", PoisonReason.badShape), ("[]", .badShape), ("x", .badJSON), (#"{"kind":"merge"}"#, .unknownKind),
        (#"{"kind":7}"#, .badShape), (#"{"kind":"delete","kind":"delete"}"#, .duplicateKey),
        (#"{"kind":"disconnect"}"#, .badSource), (#"{"kind":"disconnect","source":"fitbit"}"#, .badSource),
        (#"{"kind":"disconnect","source":"oura","data":1}"#, .badShape),
        (#"{"kind":"preference","source":"oura"}"#, .badShape),
        (#"{"kind":"preference","metric":"mood","source":"oura"}"#, .badMetric),
        (#"{"kind":"preference","metric":"steps","source":"fitbit"}"#, .badSource),
    ])
    func `a bad account record is poison`(text: String, reason: PoisonReason) throws {
        #expect(try decodeAccount(account(text)) == .failure(reason))
    }

    @Test func `headers, key and clock are checked`() throws {
        let good = account(#"{"kind":"delete","later":{"field":1}}"#)
        #expect(try decodeAccount(good).get().record == .delete)
        func reason(_ change: (inout AnyRecord) -> Void) throws -> PoisonReason? {
            var record = good
            change(&record)
            guard case .failure(let reason) = try decodeAccount(record) else { return nil }
            return reason
        }
        #expect(try reason { $0.key = "7" } == .badKey)
        #expect(try reason { $0.key = nil } == .badKey)
        #expect(try reason { $0.value = nil } == .missingValue)
        #expect(try reason { $0.schema = nil } == .missingHeader)
        #expect(try reason { $0.schema = "account/2" } == .unknownSchema)
        #expect(try reason { $0.schema = "days/1" } == .unknownSchema)
        #expect(try reason { $0.eventID = nil } == .missingHeader)
        #expect(try reason { $0.eventID = "7" } == .badEventID)
        #expect(try reason { $0.receivedAt = "now" } == .badReceivedAt)
        #expect(try reason { $0.receivedAt = "2019-01-01T00:00:00Z" } == .badReceivedAt)
        #expect(try reason { $0.appendTime = arrival.advanced(bySeconds: -301) } == .clock)
        #expect(try reason { $0.appendTime = arrival.advanced(bySeconds: -299) } == nil)
        #expect(try reason { $0.value = Array(repeating: 0x20, count: 20_000) } == .tooLarge)
    }
}

struct DeviceRecordTests {
    @Test func `every device record reads back as it was`() throws {
        var records = [DeviceRecord(user: user, registration: nil)]
        for platform in DeviceRecord.Platform.allCases {
            for environment in DeviceRecord.Environment.allCases {
                for (text, zone) in [("", nil), ("com.example.\"daybook\" é", "Europe/Athens")] {
                    let registration = DeviceRecord.Registration(
                        token: "abc:DEF-0_9",
                        platform: platform,
                        environment: environment,
                        appID: text,
                        appVersion: text,
                        osVersion: text,
                        timeZone: zone
                    )
                    records.append(DeviceRecord(user: user, registration: registration))
                }
            }
        }
        for record in records {
            var raw = device("")
            raw.value = record.encoded()
            let decoded = try decodeDevice(raw).get()
            #expect(decoded.record == record)
            #expect(decoded.hash == DeviceTokenHash(ascii: Array(hashText.utf8).span))
            #expect(decoded.envelope == Envelope(event: event, receivedAt: arrival))
        }
    }

    @Test func `a withdrawal holds no token`() {
        let text = String(decoding: DeviceRecord(user: user, registration: nil).encoded(), as: UTF8.self)
        #expect(text == #"{"kind":"withdraw","user":"\#(user)"}"#)
    }

    @Test func `a hash reads back, in either case, and sorts as its text`() {
        var generator = SystemRandomNumberGenerator()
        var hashes: [DeviceTokenHash] = []
        for _ in 0..<100 {
            let digest = InlineArray<32, UInt8> { _ in UInt8.random(in: 0...255, using: &generator) }
            let hash = DeviceTokenHash(digest)
            #expect(DeviceTokenHash(ascii: hash.hex.span) == hash)
            let upper = Array(String(decoding: hash.hex, as: UTF8.self).uppercased().utf8)
            #expect(DeviceTokenHash(ascii: upper.span) == hash)
            #expect(hash.bytes == (0..<32).map { digest[$0] })
            hashes.append(hash)
        }
        let texts = hashes.sorted().map { String(decoding: $0.hex, as: UTF8.self) }
        #expect(texts == texts.sorted())
        #expect(DeviceTokenHash(ascii: Array(hashText.dropLast().utf8).span) == nil)
        #expect(DeviceTokenHash(ascii: Array((hashText.dropLast() + "g").utf8).span) == nil)
    }

    @Test(arguments: [
        ("{}", PoisonReason.badShape), (#"{"kind":"withdraw"}"#, .badShape),
        (#"{"kind":"withdraw","user":"7"}"#, .badShape),
        (#"{"kind":"forget","user":"00000000-0000-4000-8000-000000000001"}"#, .unknownKind),
        (#"{"kind":"register","user":"00000000-0000-4000-8000-000000000001"}"#, .badDevice),
        (
            #"{"kind":"register","user":"00000000-0000-4000-8000-000000000001","token":"a","platform":"palm"}"#,
            .badDevice
        ),
    ])
    func `a bad device record is poison`(text: String, reason: PoisonReason) throws {
        #expect(try decodeDevice(device(text)) == .failure(reason))
        var record = device(text)
        record.key = user.description
        #expect(try decodeDevice(record) == .failure(.badKey))
    }
}

struct TopicKeepingTests {
    @Test func `deletions are kept for ever, and withdrawals longer than days`() {
        #expect(Topic.accounts.retentionDays == nil)
        #expect(Topic.devices.retentionDays == 90)
        #expect(Topic.points.retentionDays == 30)
        #expect(Topic.allCases.filter(\.isKeyedByUser) == [.daysLive, .daysHistory, .points, .accounts])
        #expect(Set(Topic.allCases.map(\.name.description)).count == Topic.allCases.count)
    }
}
