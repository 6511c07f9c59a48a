import Kafka
import MessageContract
import Observability
import ServiceRuntime
import Synchronization

/// Asks Kafka about the topics, on a thread of its own since that blocks: before the service is ready, and again and
/// again, to see partitions that were added and settings that were weakened.
final class TopicKeeper: Sendable {
    private let holder: ProducerHolder
    private let readiness: Readiness
    private let allowsWeakTopics: Bool
    private let log: Log
    private let stop = StopFlag()
    private let thread = Mutex<WorkerThread?>(nil)
    private let onReady: @Sendable () -> Void
    private let pauses: Pauses
    private let describe: @Sendable (KafkaProducer) throws(KafkaError) -> [KafkaTopicDescription]

    /// How long it waits between two looks, in milliseconds.
    struct Pauses {
        var whenStrong = 30_000
        var whenWeak = 10_000
    }

    /// `onReady` is called on the keeper's thread whenever the topics were found in order.
    init(
        holder: ProducerHolder,
        readiness: Readiness,
        allowsWeakTopics: Bool,
        log: Log,
        pauses: Pauses = Pauses(),
        describe: @escaping @Sendable (KafkaProducer) throws(KafkaError) -> [KafkaTopicDescription] = TopicKeeper.ask,
        onReady: @escaping @Sendable () -> Void
    ) {
        self.holder = holder
        self.readiness = readiness
        self.allowsWeakTopics = allowsWeakTopics
        self.log = log
        self.pauses = pauses
        self.describe = describe
        self.onReady = onReady
    }

    private static func ask(_ producer: KafkaProducer) throws(KafkaError) -> [KafkaTopicDescription] {
        try producer.topicStrengths(timeoutMilliseconds: 5000)
    }

    func start() throws {
        let started = try WorkerThread.spawn(name: "topics") { [self] in run() }
        thread.withLock { $0 = started }
    }

    func beginStop() { stop.raise() }

    func waitStopped(until deadline: Deadline) -> Bool {
        thread.withLock { $0 }?.join(until: deadline) ?? true
    }

    private func run() {
        if allowsWeakTopics { log.warning("topics are taken as they are: weak ones are allowed") }
        var known: Bool?
        var attempts = 0
        while !stop.isRaised {
            let pause: Int
            do throws(KafkaError) {
                let producer = holder.producer
                try producer.prime(timeoutMilliseconds: 2000)
                let isStrong = try checkStrength(producer, isFirst: known != true)
                known = isStrong
                readiness.set(topics: isStrong ? nil : .weakTopics)
                attempts = 0
                pause = isStrong ? pauses.whenStrong : pauses.whenWeak
                if isStrong { onReady() }
            } catch {
                attempts += 1
                if attempts == 1 || attempts % 30 == 0 {
                    log.warning("kafka does not tell about the topics", [.error: .text(error.message)])
                }
                // What was found last holds on: whether Kafka takes records, the heartbeats tell.
                if known == nil { readiness.set(topics: .topicsUnknown) }
                pause = min(2000, 200 * attempts)
            }
            stop.wait(milliseconds: pause)
        }
    }

    /// Once topics were strong, only what is told to be weak closes the door: replicas are not counted again, since nodes
    /// may be away, and Kafka takes no record where fewer than `min.insync.replicas` are left.
    private func checkStrength(_ producer: KafkaProducer, isFirst: Bool) throws(KafkaError) -> Bool {
        guard !allowsWeakTopics else { return true }
        var isStrong = true
        let found = try describe(producer)
        for (known, topic) in zip(Topic.published, found) {
            for weakness in TopicStrength.weaknesses(of: topic, for: known, isFirst: isFirst) {
                isStrong = false
                log.warning(
                    "a topic could lose acknowledged records",
                    [.topic: .text(topic.name), .reason: .text(weakness)]
                )
            }
        }
        return isStrong
    }
}

/// What a topic has to be set to, so that acknowledged records are not lost.
enum TopicStrength {
    /// What is wrong, in words for the operator; empty for a strong topic.
    static func weaknesses(
        of found: KafkaTopicDescription,
        for topic: Topic,
        isFirst: Bool = true
    ) -> [String] {
        var weaknesses: [String] = []
        if isFirst, found.replicationFactor < Topic.replicationFactor {
            weaknesses.append("it has fewer than \(Topic.replicationFactor) replicas")
        }
        if found.partitions & (found.partitions - 1) != 0 || found.partitions == 0 {
            weaknesses.append("its number of partitions is not a power of two")
        }
        guard found.settings != nil else {
            return isFirst ? weaknesses + ["the cluster does not tell its settings"] : weaknesses
        }
        if (found.minInSyncReplicas ?? 0) < Topic.minimumInSyncReplicas {
            weaknesses.append("min.insync.replicas is below \(Topic.minimumInSyncReplicas)")
        }
        if found.allowsUncleanLeader != false { weaknesses.append("unclean.leader.election.enable is not false") }
        if found.cleanupPolicy != "delete" { weaknesses.append("cleanup.policy is not delete") }
        if found.timestampType != "LogAppendTime" { weaknesses.append("message.timestamp.type is not LogAppendTime") }
        if (found.maxMessageBytes ?? 0) < topic.maximumRecordBytes {
            weaknesses.append("max.message.bytes is below \(topic.maximumRecordBytes)")
        }
        return weaknesses
    }
}
