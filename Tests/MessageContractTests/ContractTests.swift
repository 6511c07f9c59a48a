import Domain
import JSON
import MessageContract
import Testing

struct PartitionerTests {
    @Test(arguments: [
        ("21", Int32(-973_932_308)), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ])
    func `murmur2 gives what the Java client gives`(text: String, hash: Int32) {
        #expect(Array(text.utf8).withUnsafeBytes { Partitioner.murmur2($0) } == hash)
    }

    @Test func `a partition is the bucket modulo the count, whatever the count`() {
        for number in 0..<500 {
            let user = UserID(high: UInt64(number) &* 0x9e37_79b9_7f4a_7c15, low: UInt64(number))
            let bucket = Partitioner.bucket(of: user)
            for count in [1, 4, 32, 64, 4096] {
                #expect(Partitioner.partition(of: user, partitions: count) == bucket % count)
            }
        }
    }
}

struct TopicTests {
    @Test func `names are those that operators know`() {
        #expect(Topic.daysLive.name(prefix: "") == "daybook.days.live.v1")
        #expect(Topic.daysHistory.name(prefix: "test-") == "test-daybook.days.history.v1")
        #expect(Topic.deadLetters.name(prefix: "") == "daybook.dead-letters.v1")
    }

    @Test func `the last 35 days are live, older ones are history`() {
        let today = CalendarDay(daysSinceEpoch: 20_000)
        #expect(Lane(day: today.advanced(by: 1), today: today) == .live)
        #expect(Lane(day: today.advanced(by: -35), today: today) == .live)
        #expect(Lane(day: today.advanced(by: -36), today: today) == .history)
    }

    @Test func `every schema id reads back and others are unknown`() {
        for schema in Schema.allCases {
            let bytes = Array(schema.id.description.utf8)
            #expect(bytes.withUnsafeBytes { Schema(id: $0) } == schema)
        }
        #expect(Array("days/2".utf8).withUnsafeBytes { Schema(id: $0) } == nil)
        #expect(Array("".utf8).withUnsafeBytes { Schema(id: $0) } == nil)
    }

    @Test func `every metric is found by its name, at any place, and no other is`() {
        let keys = MetricKeys()
        func find(_ name: String, at place: Int) -> Metric? {
            var bytes = Array(name.utf8)
            bytes.append(contentsOf: repeatElement(0xee, count: 8))
            return bytes.withUnsafeBufferPointer {
                keys.metric(for: JSONText(rebasing: $0[..<name.utf8.count]), at: place)
            }
        }
        for place in [0, 19, 20, 10_000] {
            for metric in Metric.allCases {
                #expect(find(MetricLedger[metric].name.description, at: place) == metric)
                #expect(find(MetricLedger[metric].name.description + "x", at: place) == nil)
            }
            #expect(find("", at: place) == nil)
            #expect(find("step", at: place) == nil)
            #expect(find("active_xxergy_kcal", at: place) == nil)
        }
    }
}

struct HeartbeatTests {
    private func decode(_ text: String, schema: String = "heartbeat/1", appendTime: Instant? = nil) throws
        -> Result<DecodedHeartbeat, PoisonReason>
    {
        let parser = try JSONParser()
        let schema = Array(schema.utf8)
        let received = Array("2026-09-02T21:14:06.000000Z".utf8)
        return schema.withUnsafeBytes { schema in
            received.withUnsafeBytes { received in
                Array(text.utf8).withUnsafeBytes { value in
                    var headers = RecordHeaders()
                    headers.schema = schema
                    headers.receivedAt = received
                    return DecodedHeartbeat.decode(
                        value: value,
                        headers: headers,
                        appendTime: appendTime,
                        parser: parser
                    )
                }
            }
        }
    }

    @Test func `a heartbeat reads back`() throws {
        let beat = HeartbeatRecord(requests: 12, answered: 11)
        let decoded = try decode(String(decoding: beat.encoded(), as: UTF8.self)).get()
        #expect(decoded.counts == beat)
        #expect(decoded.receivedAt == Instant(rfc3339: "2026-09-02T21:14:06Z"))
    }

    @Test(arguments: [
        ("{}", PoisonReason.badShape), ("x", .badJSON), (#"{"requests":1,"answered":2}"#, .badShape),
        (#"{"requests":-1,"answered":-1}"#, .badShape), (#"{"requests":1,"requests":1,"answered":1}"#, .duplicateKey),
    ])
    func `a bad heartbeat is poison`(text: String, reason: PoisonReason) throws {
        #expect(try decode(text) == .failure(reason))
    }

    @Test func `heartbeats have a schema and a clock too`() throws {
        let text = #"{"requests":1,"answered":1}"#
        #expect(try decode(text, schema: "heartbeat/2") == .failure(.unknownSchema))
        #expect(try decode(text, appendTime: Instant(rfc3339: "2026-09-02T20:00:00Z")) == .failure(.clock))
    }
}
