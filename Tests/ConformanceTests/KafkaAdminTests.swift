import Kafka
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(3)))
struct KafkaAdminTests {
    @Test(arguments: KafkaUnderTest.all)
    func `watermarks, single records and the cluster id`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("marks", partitions: 2)
        let partition = TopicPartition(topic: topic, partition: 1)
        let producer = try kafka.producer(topic)
        let reader = try kafka.reader()
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        #expect(try reader.watermarks(partition, timeoutMilliseconds: 10_000) == KafkaWatermarks(low: 0, high: 0))
        try producer.sendAndConfirm(["a", "b", "c"], partition: 1)
        #expect(try admin.watermarks(partition, timeoutMilliseconds: 10_000) == KafkaWatermarks(low: 0, high: 3))

        let middle = try reader.record(partition, at: 1, timeoutMilliseconds: 10_000)
        #expect(middle.map(Seen.init)?.value == Array("b".utf8))
        let last = try reader.record(partition, at: 2, timeoutMilliseconds: 10_000)
        #expect(last.map(Seen.init)?.value == Array("c".utf8))
        #expect(try reader.record(partition, at: 3, timeoutMilliseconds: 10_000) == nil)

        let id = try admin.clusterID(timeoutMilliseconds: 10_000)
        #expect(!id.isEmpty)
        #expect(try producer.clusterID(timeoutMilliseconds: 10_000) == id)
        #expect(try reader.clusterID(timeoutMilliseconds: 10_000) == id)
        if let mock = kafka.mock { #expect(mock.clusterID == id) }
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a reader that starts beyond the log says so`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("reader")
        try kafka.producer(topic).sendAndConfirm(["a"])
        let reader = try kafka.reader()
        try reader.start(TopicPartition(topic: topic, partition: 0), from: .offset(50))
        let error = #expect(throws: KafkaError.self) { try reader.next(timeoutMilliseconds: 10_000) }
        #expect(error?.isOffsetOutOfRange == true)
        try reader.start(TopicPartition(topic: topic, partition: 0), from: .offset(0))
        #expect(try reader.next(timeoutMilliseconds: 10_000)?.offset == 0)
        #expect(try reader.next(timeoutMilliseconds: 200) == nil)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `an offset is found by time, and the mock says that it can't`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("times", settings: ["message.timestamp.type": "LogAppendTime"])
        let place = TopicPartition(topic: topic, partition: 0)
        try kafka.producer(topic).sendAndConfirm(["a", "b"])
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        if kafka.kind == .mock {
            let error = #expect(throws: KafkaError.self) {
                try admin.offsets(at: 0, [place], timeoutMilliseconds: 10_000)
            }
            #expect(error?.isUnsupported == true)
            return
        }
        let reader = try kafka.reader()
        let second = try #require(try reader.record(place, at: 1, timeoutMilliseconds: 10_000))
        let time = second.timestampMilliseconds
        #expect(try admin.offsets(at: 1, [place], timeoutMilliseconds: 10_000) == [0])
        #expect(try admin.offsets(at: time, [place], timeoutMilliseconds: 10_000).allSatisfy { ($0 ?? 9) <= 1 })
        #expect(try admin.offsets(at: time + 1, [place], timeoutMilliseconds: 10_000) == [nil])
    }

    @Test(arguments: KafkaUnderTest.all)
    func `topics are made once and described`(kafka: KafkaUnderTest) throws {
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let name = try kafka.makeTopic("described", partitions: 4, settings: ["retention.ms": "3600000"])
        #expect(try admin.partitionCount(of: name, timeoutMilliseconds: 10_000) == 4)
        let again = KafkaTopicSpecification(name: name, partitions: 9, replicationFactor: 1)
        if kafka.kind == .mock {
            let error = #expect(throws: KafkaError.self) { try admin.create([again], timeoutMilliseconds: 10_000) }
            #expect(error?.isUnsupported == true)
        } else {
            #expect(try admin.create([again], timeoutMilliseconds: 10_000) == [])
        }
        let topic = try admin.describe(name, timeoutMilliseconds: 10_000)
        #expect(topic.name == name)
        #expect(topic.partitions == 4)
        #expect(topic.replicationFactor == 1)
        let producer = try kafka.producer(name)
        #expect(try producer.topicStrengths(timeoutMilliseconds: 10_000) == [topic])
        guard kafka.kind == .real else {
            #expect(topic.settings == nil)
            return
        }
        #expect(topic.retentionMilliseconds == 3_600_000)
        #expect(topic.minInSyncReplicas == 1)
        #expect(topic.cleanupPolicy == "delete")
        #expect(topic.timestampType == "CreateTime")
        #expect(topic.allowsUncleanLeader == false)
        #expect(topic.maxMessageBytes == 1_048_588)
        let error = #expect(throws: KafkaError.self) {
            try admin.describe("absent-topic", timeoutMilliseconds: 10_000)
        }
        #expect(error?.isUnknownTopic == true)
    }

    @Test func `without a broker every call ends in its time`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        try kafka.takeDown()
        defer { kafka.stop() }
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let start = ContinuousClock.now
        #expect(throws: KafkaError.self) { try admin.clusterID(timeoutMilliseconds: 300) }
        #expect(throws: KafkaError.self) { try admin.describe("t", timeoutMilliseconds: 300) }
        #expect(throws: KafkaError.self) {
            try admin.watermarks(TopicPartition(topic: "t", partition: 0), timeoutMilliseconds: 300)
        }
        #expect(throws: KafkaError.self) {
            try admin.create([KafkaTopicSpecification(name: "t", partitions: 1)], timeoutMilliseconds: 300)
        }
        #expect(ContinuousClock.now - start < .seconds(5))
    }
}
