import Kafka
import Testing

struct KafkaTopicDescriptionTests {
    @Test func `settings are read as what they mean`() {
        let topic = KafkaTopicDescription(
            name: "t",
            partitions: 4,
            replicationFactor: 3,
            settings: [
                "min.insync.replicas": "2", "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime",
                "unclean.leader.election.enable": "false", "max.message.bytes": "1048588", "retention.ms": "-1",
            ]
        )
        #expect(topic.minInSyncReplicas == 2)
        #expect(topic.cleanupPolicy == "delete")
        #expect(topic.timestampType == "LogAppendTime")
        #expect(topic.allowsUncleanLeader == false)
        #expect(topic.maxMessageBytes == 1_048_588)
        #expect(topic.retentionMilliseconds == -1)
    }

    @Test func `what the cluster does not tell is unknown, not weak`() {
        let topic = KafkaTopicDescription(name: "t", partitions: 4, replicationFactor: 1, settings: nil)
        #expect(topic.minInSyncReplicas == nil)
        #expect(topic.allowsUncleanLeader == nil)
    }

    @Test func `partitions sort by topic, then number`() {
        let sorted = [("b", 1), ("a", 10), ("a", 9)].map { TopicPartition(topic: $0.0, partition: $0.1) }.sorted()
        #expect(sorted.map(\.description) == ["a/9", "a/10", "b/1"])
    }
}
