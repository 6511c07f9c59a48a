import Kafka
import TestSupport
import Testing

/// Faults that only the mock can inject.
@Suite(.timeLimit(.minutes(3)))
struct KafkaFaultTests {
    @Test func `produce errors that pass are retried without the caller noticing`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let producer = try kafka.producer(try kafka.makeTopic("retry"))
        // NOT_LEADER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS
        try kafka.mock?.failProduceRequests(with: [6, 7, 19])
        let reports = try producer.sendAndConfirm(["a", "b", "c"])
        #expect(reports.map(\.offset).sorted() == [0, 1, 2])
    }

    @Test func `a produce error that stays comes as a report`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let producer = try kafka.producer(try kafka.makeTopic("refused"))
        try kafka.mock?.failProduceRequests(with: [KafkaError.Code.topicAuthorization])
        try producer.send("x")
        let report = try #require(try producer.awaitReports(1).first)
        #expect(report.error?.code == KafkaError.Code.topicAuthorization)
        #expect(report.error?.message.contains("ACL") == true)
    }

    @Test func `a leader that moves costs no record`() throws {
        let kafka = try KafkaUnderTest.start(.mock, brokers: 3)
        defer { kafka.stop() }
        let topic = try kafka.makeTopic("moving")
        let producer = try kafka.producer(topic)
        for broker in Int32(1)...3 {
            try kafka.mock?.setLeader(of: TopicPartition(topic: topic, partition: 0), broker: broker)
            try producer.sendAndConfirm(["on broker \(broker)"])
        }
        #expect(try kafka.records(topic, count: 3).map(\.offset) == [0, 1, 2])
    }

    @Test func `a fatal error is readable, and a new producer works`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let topic = try kafka.makeTopic("fatal")
        let producer = try kafka.producer(topic)
        try producer.sendAndConfirm(["a"])
        // OUT_OF_ORDER_SEQUENCE_NUMBER: producer and broker no longer agree on what was sent.
        try kafka.mock?.failProduceRequests(with: [45])
        try producer.send("b")
        #expect(try producer.awaitReports(1).first?.error != nil)
        let fatal = try #require(producer.fatalError)
        #expect(fatal.isFatal)
        let error = #expect(throws: KafkaError.self) { try producer.send("c") }
        #expect(error?.isFatal == true)
        try kafka.mock?.clearProduceErrors()
        try kafka.producer(topic).sendAndConfirm(["d"])
    }

    @Test func `closing gives up what cannot be delivered, with a report for each`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let producer = try kafka.producer(try kafka.makeTopic("closing"))
        try kafka.takeDown()
        for tag in 0..<5 { try producer.send("x", tag: UInt64(tag)) }
        var tags: [UInt64] = []
        producer.close(timeoutMilliseconds: 200) { report in
            #expect(report.error != nil)
            tags.append(report.tag)
        }
        #expect(tags.sorted() == [0, 1, 2, 3, 4])
        #expect(producer.outstandingCount == 0)
    }

    @Test func `cooperative assignors are refused`() throws {
        let error = #expect(throws: KafkaError.self) {
            try KafkaConsumer(
                properties: [("group.id", "g"), ("partition.assignment.strategy", "cooperative-sticky")],
                topics: ["t"],
                log: { _ in }
            )
        }
        #expect(error?.message.contains("eager") == true)
    }

    @Test func `a wrong property is named and its value is not`() throws {
        for name in ["sasl.password.typo", "linger.ms"] {
            let error = #expect(throws: KafkaError.self) {
                try KafkaProducer(properties: [(name, "hunter2")], topics: [], log: { _ in })
            }
            #expect(error?.message.contains(name) == true)
            #expect(error?.message.contains("hunter2") == false)
        }
    }

    @Test func `records outlive their consumer`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let topic = try kafka.makeTopic("outlive")
        try kafka.producer(topic).sendAndConfirm(["a"])
        var consumer: KafkaConsumer? = try kafka.consumer(topic, group: topic)
        try consumer?.awaitAssignment()
        let record = try consumer?.pollUntil("a record") { found in
            if case .record(let record) = found { record } else { nil }
        }
        consumer?.close(timeoutMilliseconds: 5000)
        consumer = nil
        #expect(record?.withValue { $0.map(Array.init) } == Array("a".utf8))
    }
}
