import Kafka
import MessageContract
import Testing

@testable import Daybook

struct TopicPlanTests {
    private func description(
        _ topic: Topic,
        partitions: Int = 32,
        copies: Int = 3,
        _ changes: [String: String] = [:]
    ) -> KafkaTopicDescription {
        let settings = TopicPlan().specification(topic).settings.merging(changes) { $1 }
        return KafkaTopicDescription(
            name: topic.name.description,
            partitions: partitions,
            replicationFactor: copies,
            settings: settings
        )
    }

    @Test func `a topic made by the plan has no weakness`() {
        for topic in Topic.allCases {
            #expect(TopicPlan.weaknesses(topic, description(topic)).isEmpty)
        }
    }

    @Test(arguments: [
        ("min.insync.replicas", "1"), ("cleanup.policy", "compact"), ("cleanup.policy", "compact,delete"),
        ("unclean.leader.election.enable", "true"), ("message.timestamp.type", "CreateTime"),
        ("max.message.bytes", "1000"),
    ])
    func `each weak setting is found and the way out named`(setting: String, value: String) {
        let found = TopicPlan.weaknesses(.daysLive, description(.daysLive, [setting: value]))
        #expect(found.count == 1)
        #expect(found.first?.contains("--add-config \(setting)=") == true)
    }

    @Test func `too few copies are found`() {
        #expect(TopicPlan.weaknesses(.daysLive, description(.daysLive, copies: 1)).first?.contains("1 copy") == true)
    }

    @Test func `topics keyed by user must have the same number of partitions, a power of two`() {
        func faults(_ live: Int, _ history: Int, _ dead: Int = 3) -> Int {
            TopicPlan.partitionFaults([
                (.daysLive, description(.daysLive, partitions: live)),
                (.daysHistory, description(.daysHistory, partitions: history)),
                (.deadLetters, description(.deadLetters, partitions: dead)),
            ]).count
        }
        #expect(faults(32, 32) == 0)
        #expect(faults(32, 16) == 1)
        #expect(faults(12, 12) == 2)
        #expect(faults(0, 0) == 2)
    }

    @Test func `weak topics leave the number of copies to the brokers`() {
        let specification = TopicPlan(partitions: 4, replication: -1, prefix: "test.").specification(.daysLive)
        #expect(specification.replicationFactor == -1)
        #expect(specification.settings["min.insync.replicas"] == nil)
        #expect(specification.name == "test.daybook.days.live.v1")
        #expect(specification.partitions == 4)
    }
}
