import Kafka
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(3)), .serialized)
struct KafkaMockClusterTests {
    @Test func `the first broker listens where it is told, again and again`() throws {
        // A port that was free a moment ago.
        let probe = try MockKafkaCluster()
        let port = try #require(probe.bootstrapServers.split(separator: ":").last.flatMap { UInt16($0) })
        probe.stop()
        for _ in 0..<3 {
            let mock = try MockKafkaCluster(brokers: 2, port: port, topics: [("fixed", 4)])
            #expect(mock.bootstrapServers.hasPrefix("127.0.0.1:\(port),127.0.0.1:"))
            let producer = try KafkaProducer(
                properties: [("bootstrap.servers", mock.bootstrapServers)],
                topics: ["fixed"],
                log: { _ in }
            )
            try producer.prime(timeoutMilliseconds: 10_000)
            #expect(producer.partitionCount(topicIndex: 0) == 4)
            try producer.sendAndConfirm(["x"])
            #expect(throws: KafkaError.self) { try MockKafkaCluster(port: port) }
            mock.stop()
        }
    }

    @Test func `every start is another cluster`() throws {
        var ids: Set<String> = []
        for _ in 0..<5 {
            let mock = try MockKafkaCluster()
            ids.insert(mock.clusterID)
            mock.stop()
        }
        #expect(ids.count == 5)
    }

    @Test func `a stopped cluster refuses instead of crashing`() throws {
        let mock = try MockKafkaCluster()
        mock.stop()
        mock.stop()
        #expect(throws: KafkaError.self) { try mock.setDown(broker: 1) }
    }

    @Test(arguments: ["0", "2"])
    func `the mock answers without stalls of 40 ms`(linger: String) throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let before = MockKafkaCluster.noDelayConnections
        let producer = try kafka.producer(try kafka.makeTopic("fast"), [("linger.ms", linger)])
        try producer.sendAndConfirm(["first"])
        #expect(MockKafkaCluster.noDelayConnections > before)
        let start = ContinuousClock.now
        for _ in 0..<100 { try producer.sendAndConfirm(["x"]) }
        let perRecord = (ContinuousClock.now - start) / 100
        print("mock, linger \(linger): \(perRecord) for each of 100 records, one after the other")
        #expect(perRecord < .milliseconds(20))
    }

    @Test func `clients that come and go leave no thread and no descriptor behind`() throws {
        let kafka = try KafkaUnderTest.start(.mock)
        defer { kafka.stop() }
        let topic = try kafka.makeTopic("leak")
        func once() throws {
            try kafka.producer(topic).sendAndConfirm(["x"])
            let consumer = try kafka.consumer(topic, group: "leak")
            _ = consumer.poll(timeoutMilliseconds: 20)
            consumer.close(timeoutMilliseconds: 3000)
            _ = try kafka.reader().record(
                TopicPartition(topic: topic, partition: 0),
                at: 0,
                timeoutMilliseconds: 10_000
            )
        }
        for _ in 0..<3 { try once() }
        let before = processResources()
        for _ in 0..<50 { try once() }
        // The mock keeps its end of the connection of every member that left.
        kafka.stop()
        let after = processResources()
        print("50 producers, consumers and readers: \(before) before, \(after) after")
        // Other tests run beside this one: what leaks here would be one for each round.
        #expect(after.descriptors - before.descriptors < 25)
        #expect(after.threads - before.threads < 25)
    }
}
