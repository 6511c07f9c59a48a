import Kafka
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(3)))
struct KafkaConsumerTests {
    @Test(arguments: KafkaUnderTest.all)
    func `a member alone gets all partitions and reads them from the beginning`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("alone", partitions: 3)
        let producer = try kafka.producer(topic)
        for partition in Int32(0)..<3 { try producer.sendAndConfirm(["a", "b"], partition: partition) }
        let consumer = try kafka.consumer(topic, group: topic)
        #expect(try consumer.awaitAssignment() == (0..<3).map { TopicPartition(topic: topic, partition: $0) })
        let records = try consumer.awaitRecords(6)
        for partition in Int32(0)..<3 {
            #expect(records.filter { $0.partition == partition }.map(\.offset) == [0, 1])
        }
        consumer.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a second member takes its share, and gives it back when it leaves`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("shared", partitions: 4)
        var members = [try kafka.consumer(topic, group: topic)]
        #expect(try members[0].awaitAssignment().count == 4)
        try members.append(kafka.consumer(topic, group: topic))
        var held: [[TopicPartition]] = [[], []]
        var wasRevoked = false
        let end = ContinuousClock.now + .seconds(60)
        while held.map(\.count) != [2, 2], ContinuousClock.now < end {
            for index in 0..<2 {
                switch members[index].poll(timeoutMilliseconds: 50) {
                case .assigned(let partitions):
                    try members[index].assign(partitions.map { ($0, .beginning) })
                    held[index] = partitions
                case .revoked(let partitions):
                    if index == 0, partitions.count == 4 { wasRevoked = true }
                    try members[index].unassign()
                    held[index] = []
                default: break
                }
            }
        }
        #expect(wasRevoked)
        #expect(held.joined().sorted() == (0..<4).map { TopicPartition(topic: topic, partition: $0) })

        members[1].close(timeoutMilliseconds: 5000)
        let back = try members[0].pollUntil("the other's partitions") { found -> [TopicPartition]? in
            switch found {
            case .revoked: try members[0].unassign()
            case .assigned(let partitions):
                try members[0].assign(partitions.map { ($0, .beginning) })
                return partitions.count == 4 ? partitions : nil
            default: break
            }
            return nil
        }
        #expect(back.count == 4)
        members[0].close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `nothing is fetched until the caller assigns, which may be late`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("late")
        try kafka.producer(topic).sendAndConfirm(["a", "b", "c"])
        let consumer = try kafka.consumer(topic, group: topic)
        let partitions = try consumer.pollUntil("an assignment") { found in
            if case .assigned(let partitions) = found { partitions } else { nil }
        }
        for _ in 0..<10 {
            guard case .nothing = consumer.poll(timeoutMilliseconds: 100) else {
                Issue.record("something came before assign")
                return
            }
        }
        try consumer.assign(partitions.map { ($0, .offset(1)) })
        #expect(try consumer.awaitRecords(2).map(\.offset) == [1, 2])
        consumer.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a committed offset is seen by the group, and the next member goes on there`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("commit")
        let partition = TopicPartition(topic: topic, partition: 0)
        try kafka.producer(topic).sendAndConfirm(["a", "b", "c", "d"])
        let first = try kafka.consumer(topic, group: topic)
        try first.awaitAssignment()
        #expect(try first.committed([partition], timeoutMilliseconds: 10_000) == [nil])
        _ = try first.awaitRecords(2)
        try first.commit([(partition, offset: 2)])
        let committed = try first.pollUntil("the commit") { _ in
            try first.committed([partition], timeoutMilliseconds: 10_000)[0]
        }
        #expect(committed == 2)
        first.close(timeoutMilliseconds: 5000)

        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let asked = try admin.committedOffsets(group: topic, [partition], timeoutMilliseconds: 10_000)
        #expect(asked == [2])
        let second = try kafka.consumer(topic, group: topic)
        try second.awaitAssignment(from: .offset(asked[0] ?? 0))
        #expect(try second.awaitRecords(2).map(\.offset) == [2, 3])
        second.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `an offset beyond the log's end is reported, never silently the latest`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("beyond")
        try kafka.producer(topic).sendAndConfirm(["a"])
        let consumer = try kafka.consumer(topic, group: topic)
        try consumer.awaitAssignment(from: .offset(1000))
        let (partition, error) = try consumer.pollUntil("an error") { found in
            if case .partitionError(let partition, let error) = found { (partition, error) } else { nil }
        }
        #expect(partition == TopicPartition(topic: topic, partition: 0))
        #expect(error.isOffsetOutOfRange)
        #expect(!error.isRetriable)
        // The caller decides: the same consumer goes on from where it is told.
        try consumer.assign([(partition, .beginning)])
        #expect(try consumer.awaitRecords(1).map(\.offset) == [0])
        consumer.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a paused partition is silent and goes on where it was`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("paused")
        let partition = TopicPartition(topic: topic, partition: 0)
        try kafka.producer(topic).sendAndConfirm(["a", "b", "c"])
        let consumer = try kafka.consumer(topic, group: topic)
        try consumer.awaitAssignment()
        #expect(try consumer.awaitRecords(1).map(\.offset) == [0])
        try consumer.pause([partition])
        for _ in 0..<5 {
            if case .record(let record) = consumer.poll(timeoutMilliseconds: 100) {
                Issue.record("offset \(record.offset) came while paused")
            }
        }
        try consumer.resume([partition])
        #expect(try consumer.awaitRecords(2).map(\.offset) == [1, 2])
        consumer.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `assigned anew from another offset, nothing that was fetched before comes any more`(
        kafka: KafkaUnderTest
    ) throws {
        let topic = try kafka.makeTopic("anew")
        let partition = TopicPartition(topic: topic, partition: 0)
        try kafka.producer(topic).sendAndConfirm((0..<500).map { "\($0)" })
        let consumer = try kafka.consumer(topic, group: topic)
        try consumer.awaitAssignment()
        for round in 0..<20 {
            _ = try consumer.awaitRecords(1 + round * 7)
            try consumer.assign([(partition, .offset(Int64(round % 3)))])
            let first = try consumer.awaitRecords(1)
            #expect(first.map(\.offset) == [Int64(round % 3)])
        }
        consumer.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a partition that was paused is read once it is assigned anew`(kafka: KafkaUnderTest) throws {
        let topic = try kafka.makeTopic("unpaused")
        let partition = TopicPartition(topic: topic, partition: 0)
        try kafka.producer(topic).sendAndConfirm(["a", "b", "c"])
        let consumer = try kafka.consumer(topic, group: topic)
        try consumer.awaitAssignment()
        #expect(try consumer.awaitRecords(1).map(\.offset) == [0])
        try consumer.pause([partition])
        try consumer.assign([(partition, .offset(1))])
        #expect(try consumer.awaitRecords(2).map(\.offset) == [1, 2])
        // Nor does a pause outlive an assignment that is given back.
        try consumer.pause([partition])
        try consumer.unassign()
        try consumer.assign([(partition, .offset(1))])
        #expect(try consumer.awaitRecords(2).map(\.offset) == [1, 2])
        consumer.close(timeoutMilliseconds: 5000)
    }
    @Test(arguments: KafkaUnderTest.all)
    func `a member that does not poll in time is told, loses its partitions and comes back`(
        kafka: KafkaUnderTest
    ) throws {
        let topic = try kafka.makeTopic("slow")
        let consumer = try kafka.consumer(topic, group: topic, [("max.poll.interval.ms", "6000")])
        try consumer.awaitAssignment()
        // Nothing to wait on: the point is that this thread is away.
        waitReadable(-1, milliseconds: 7500)
        var wasTold = false
        try consumer.pollUntil("the revocation") { found -> Bool? in
            switch found {
            case .error(let error):
                wasTold = wasTold || error.code == KafkaError.Code.maxPollExceeded
                return nil
            case .revoked:
                try consumer.unassign()
                return true
            default: return nil
            }
        }
        #expect(wasTold)
        #expect(try consumer.awaitAssignment().count == 1)
        consumer.close(timeoutMilliseconds: 5000)
    }

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `a consumer survives its brokers and goes on, and closing without them does not hang`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let kafka = try KafkaUnderTest.start(kind)
        defer { kafka.stop() }
        let topic = try kafka.makeTopic("survivor")
        let producer = try kafka.producer(topic)
        try producer.sendAndConfirm(["a"])
        let consumer = try kafka.consumer(topic, group: topic, [("session.timeout.ms", "20000")])
        try consumer.awaitAssignment()
        #expect(try consumer.awaitRecords(1).count == 1)
        try kafka.takeDown()
        try consumer.pollUntil("an error") { found in if case .error = found { true } else { nil } }
        try kafka.bringBack()
        try producer.sendAndConfirm(["b"])
        // The group may have lost its member meanwhile.
        let offset = try consumer.pollUntil("the second record", seconds: 60) { found -> Int64? in
            switch found {
            case .record(let record): return record.offset
            case .revoked: try consumer.unassign()
            case .assigned(let partitions): try consumer.assign(partitions.map { ($0, .offset(1)) })
            default: break
            }
            return nil
        }
        #expect(offset == 1)
        try kafka.takeDown()
        let start = ContinuousClock.now
        consumer.close(timeoutMilliseconds: 2000)
        #expect(ContinuousClock.now - start < .seconds(4))
    }
}
