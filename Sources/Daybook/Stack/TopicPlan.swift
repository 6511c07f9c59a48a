import Configuration
import DevelopmentStack
import Glibc
import Kafka
import MessageContract

/// Which topics there must be and how they must be set, and what is wrong with those that are. Pure.
struct TopicPlan: Sendable {
    let partitions: Int
    /// How many copies a new topic gets; -1, the broker's default, only where weak topics are allowed.
    let replication: Int
    let prefix: String

    init(partitions: Int = Topic.defaultPartitions, replication: Int = Topic.replicationFactor, prefix: String = "") {
        self.partitions = partitions
        self.replication = replication
        self.prefix = prefix
    }

    init(_ configuration: ToolConfiguration, partitions: Int) {
        self.init(
            partitions: partitions,
            replication: configuration.allowsWeakTopics ? -1 : configuration.replication,
            prefix: configuration.topicPrefix
        )
    }

    /// What makes the topic.
    func specification(_ topic: Topic) -> KafkaTopicSpecification {
        var settings = [
            "cleanup.policy": "delete",
            "retention.ms": topic.retentionDays.map { String($0 * 86_400_000) } ?? "-1",
            "max.message.bytes": String(topic.maximumRecordBytes),
            "unclean.leader.election.enable": "false",
            "message.timestamp.type": "LogAppendTime",
        ]
        if replication >= Topic.minimumInSyncReplicas {
            settings["min.insync.replicas"] = String(Topic.minimumInSyncReplicas)
        }
        return KafkaTopicSpecification(
            name: topic.name(prefix: prefix),
            partitions: Int32(clamping: topic.isWide ? partitions : min(partitions, 4)),
            replicationFactor: Int32(clamping: replication),
            settings: settings
        )
    }

    /// Settings under which an accepted record could be lost or misread; each says how to put it right.
    static func weaknesses(_ topic: Topic, _ found: KafkaTopicDescription) -> [String] {
        var list: [String] = []
        func alter(_ setting: String) -> String {
            "`kafka-configs.sh --alter --topic \(found.name) --add-config \(setting)` sets it"
        }
        if found.replicationFactor < Topic.replicationFactor {
            list.append(
                "\(found.name) has \(counted(found.replicationFactor, "copy", "copies")), not \(Topic.replicationFactor): "
                    + "`kafka-reassign-partitions.sh` adds some"
            )
        }
        if let replicas = found.minInSyncReplicas, replicas < Topic.minimumInSyncReplicas {
            list.append(
                "\(found.name) is acknowledged by \(counted(replicas, "copy", "copies")) (min.insync.replicas), not "
                    + "\(Topic.minimumInSyncReplicas): " + alter("min.insync.replicas=\(Topic.minimumInSyncReplicas)")
            )
        }
        if let policy = found.cleanupPolicy, policy != "delete" {
            list.append(
                "\(found.name) is cleaned up by '\(policy)', must be 'delete': " + alter("cleanup.policy=delete")
            )
        }
        if found.allowsUncleanLeader == true {
            list.append(
                "\(found.name) may elect an unclean leader: " + alter("unclean.leader.election.enable=false")
            )
        }
        if let type = found.timestampType, type != "LogAppendTime" {
            list.append(
                "\(found.name) keeps the producer's time (\(type)): " + alter("message.timestamp.type=LogAppendTime")
            )
        }
        if let bytes = found.maxMessageBytes, bytes < topic.maximumRecordBytes {
            list.append(
                "\(found.name) takes records up to \(bytes) bytes, must be \(topic.maximumRecordBytes): "
                    + alter("max.message.bytes=\(topic.maximumRecordBytes)")
            )
        }
        return list
    }

    /// Counts under which a user's records would be in different partitions of different topics; nothing may go on
    /// with these.
    static func partitionFaults(_ found: [(topic: Topic, description: KafkaTopicDescription)]) -> [String] {
        let keyed = found.filter(\.topic.isKeyedByUser).map(\.description)
        var list: [String] = []
        for topic in keyed where topic.partitions & (topic.partitions - 1) != 0 || topic.partitions == 0 {
            list.append("\(topic.name) has \(topic.partitions) partitions, which is no power of two")
        }
        if Set(keyed.map(\.partitions)).count > 1 {
            let counts = keyed.map { "\($0.name) \($0.partitions)" }.joined(separator: ", ")
            list.append("topics keyed by user must have the same number of partitions: \(counts)")
        }
        return list
    }
}

/// Looks at the topics of a Kafka, and makes those that are missing.
struct TopicSetUp {
    struct Outcome {
        var made: [String] = []
        var missing: [String] = []
        var weaknesses: [String] = []
        var faults: [String] = []
        var found: [KafkaTopicDescription] = []
    }

    let admin: KafkaAdmin
    let plan: TopicPlan
    let isDevelopmentBroker: Bool

    /// A dry run only looks.
    func run(isDryRun: Bool) throws -> Outcome {
        var outcome = Outcome()
        var descriptions: [(topic: Topic, description: KafkaTopicDescription)] = []
        for topic in Topic.allCases {
            let name = topic.name(prefix: plan.prefix)
            if let found = try describe(name) {
                descriptions.append((topic, found))
            } else if isDryRun || isDevelopmentBroker {
                outcome.missing.append(name)
            } else {
                outcome.made += try admin.create([plan.specification(topic)], timeoutMilliseconds: 15_000)
                descriptions.append((topic, try describeNew(name)))
            }
        }
        outcome.found = descriptions.map(\.description)
        outcome.faults = TopicPlan.partitionFaults(descriptions)
        if !isDevelopmentBroker {
            outcome.weaknesses = descriptions.flatMap { TopicPlan.weaknesses($0.topic, $0.description) }
        }
        return outcome
    }

    /// A topic that was just made is not known to every broker at once.
    private func describeNew(_ name: String) throws -> KafkaTopicDescription {
        let deadline = monotonicSeconds() + 15
        while true {
            if let found = try describe(name), found.partitions > 0 { return found }
            guard monotonicSeconds() < deadline else {
                throw CommandFailure(
                    .unavailable,
                    "the brokers made the topic \(name) and do not know it after 15 s",
                    next: "Look into the brokers' logs, then run `daybook migrate` again: it goes on where it was."
                )
            }
            usleep(100_000)
        }
    }

    private func describe(_ name: String) throws -> KafkaTopicDescription? {
        do throws(KafkaError) {
            return try admin.describe(name, timeoutMilliseconds: 10_000)
        } catch {
            if error.isUnknownTopic { return nil }
            throw error
        }
    }
}
