import Kafka
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(3)))
struct KafkaProducerTests {
    @Test(arguments: KafkaUnderTest.all)
    func `what is produced is consumed byte for byte with its headers, offset and time`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("bytes", settings: ["message.timestamp.type": "LogAppendTime"])
        let producer = try kafka.producer(topic)
        try producer.send("first", key: "user-1", tag: 7) { headers in
            headers.add("schema", "days/1")
            headers.add("event-id", "\u{0}\u{1}binary")
            headers.add("empty", "")
        }
        try producer.send("", tag: 8)
        try producer.produce(topicIndex: 0, key: nil, value: nil, tag: .max)
        let reports = try producer.awaitReports(3).sorted { $0.offset < $1.offset }
        #expect(reports.map(\.tag) == [7, 8, .max])
        #expect(reports.map(\.offset) == [0, 1, 2])
        #expect(reports.allSatisfy { $0.error == nil && $0.topicIndex == 0 && $0.partition == 0 })
        #expect(producer.outstandingCount == 0)

        let records = try kafka.records(topic, count: 3)
        let seen = records.map(Seen.init)
        #expect(seen.map(\.offset) == [0, 1, 2])
        #expect(seen[0].key == Array("user-1".utf8))
        #expect(seen.map(\.value) == [Array("first".utf8), [], nil])
        let headers: [String: [UInt8]?] = [
            "schema": Array("days/1".utf8), "event-id": Array("\u{0}\u{1}binary".utf8), "empty": [],
        ]
        #expect(seen[0].headers == headers)
        #expect(records[0].header(named: "schema") == Array("days/1".utf8))
        #expect(records[0].header(named: "absent") == nil)
        #expect(records[1].header(named: "schema") == nil)
        if kafka.kind == .real {
            // The mock knows no append time.
            #expect(records[0].timestampType == .appended)
            #expect(reports[0].timestampMilliseconds == records[0].timestampMilliseconds)
        }
        #expect(abs(records[0].timestampMilliseconds - wallMilliseconds()) < 60_000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `headers of another record are passed on, null values too`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("headers")
        let producer = try kafka.producer(topic)
        let name = Array("reason".utf8)
        try producer.send("x") { headers in
            name.withUnsafeBytes { name in
                headers.add(nameBytes: name, nil)
                headers.add(nameBytes: name, UnsafeRawBufferPointer(start: nil, count: 0))
            }
        }
        _ = try producer.awaitReports(1)
        let record = try #require(try kafka.records(topic, count: 1).first)
        var values: [[UInt8]?] = []
        record.forEachHeader { _, value in values.append(value.map(Array.init)) }
        #expect(values == [nil, []])
    }

    @Test(arguments: KafkaUnderTest.all)
    func `keys land where the Java client's murmur2 puts them`(kafka: KafkaUnderTest) throws {
        let count = 8
        let topic = try kafka.makeTopic("murmur", partitions: count)
        let producer = try kafka.producer(topic)
        #expect(producer.partitionCount(topicIndex: 0) == count)
        for number in 0..<200 { try producer.send("x", key: "user-\(number)", tag: UInt64(number)) }
        for report in try producer.awaitReports(200) {
            let hash = murmur2(Array("user-\(report.tag)".utf8))
            #expect(report.partition == (hash & 0x7fff_ffff) % Int32(count))
        }
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a record that is too large is refused at once and the next one goes through`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("large")
        let producer = try kafka.producer(topic, [("message.max.bytes", "100000")])
        let error = #expect(throws: KafkaError.self) {
            try producer.send(String(repeating: "x", count: 200_000))
        }
        #expect(error?.isRecordTooLarge == true)
        #expect(error?.isRetriable == false)
        try producer.sendAndConfirm(["small"])
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a full queue is thrown at once and what was taken is delivered`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("full")
        let producer = try kafka.producer(topic, [("queue.buffering.max.messages", "10"), ("linger.ms", "200")])
        var taken = 0
        let error = #expect(throws: KafkaError.self) {
            for _ in 0..<100 {
                try producer.send("x")
                taken += 1
            }
        }
        #expect(error?.isQueueFull == true)
        #expect(error?.isRetriable == true)
        #expect(taken == 10)
        #expect(try producer.awaitReports(10).allSatisfy { $0.error == nil })
        try producer.sendAndConfirm(["again"])
    }

    @Test(arguments: KafkaUnderTest.all)
    func `after priming the first record needs not wait`(kafka: KafkaUnderTest) throws {
        let producer = try kafka.producer(try kafka.makeTopic("primed", partitions: 4))
        var times: [Duration] = []
        for text in ["first", "second"] {
            let start = ContinuousClock.now
            try producer.sendAndConfirm([text], partition: 0)
            times.append(ContinuousClock.now - start)
        }
        print("\(kafka): first record after priming \(times[0]), second \(times[1])")
        #expect(times[0] < .seconds(1))
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a topic that does not exist is named when priming`(kafka: KafkaUnderTest) throws {
        // The mock makes every topic that is asked for.
        guard kafka.kind == .real else { return }
        let producer = try KafkaProducer(properties: kafka.properties(), topics: ["absent"], log: { _ in })
        let error = #expect(throws: KafkaError.self) { try producer.prime(timeoutMilliseconds: 10_000) }
        #expect(error?.isUnknownTopic == true)
        #expect(error?.message.contains("absent") == true)
    }

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `while brokers are down reports say so within the limit, and later records go through`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let kafka = try KafkaUnderTest.start(kind)
        defer { kafka.stop() }
        let topic = try kafka.makeTopic("down")
        let lines = LogLines()
        let producer = try kafka.producer(topic, [("message.timeout.ms", "2000")], log: lines.log)
        try producer.sendAndConfirm(["before"])
        try kafka.takeDown()
        try producer.send("meanwhile", tag: 5)
        let report = try #require(try producer.awaitReports(1, seconds: 15).first)
        #expect(report.tag == 5)
        #expect(report.error?.code == KafkaError.Code.messageTimedOut)
        #expect(report.error?.isRetriable == true)
        #expect(lines.errors.contains { $0.isRetriable })
        try kafka.bringBack()
        var isBack = false
        for _ in 0..<15 where !isBack {
            try producer.send("after")
            isBack = try producer.awaitReports(1, seconds: 15).allSatisfy { $0.error == nil }
        }
        #expect(isBack)
        #expect(producer.fatalError == nil)
    }
}
