internal import Kafka
internal import ServiceRuntime
internal import Synchronization

/// How many partitions the topics have: asked once for all lanes, since a client is threads and connections.
final class PartitionCounts: Sendable {
    /// In milliseconds. A lane that starts while no broker answers waits this long, and then in its group.
    private static let patience: Int32 = 3000

    private struct State {
        var counts: [String: Int] = [:]
        /// In monotonic nanoseconds.
        var askAgainAt: Int64?
    }

    private let topics: [String]
    private let properties: KafkaProperties.List
    private let time: any TimeSource
    private let state = Mutex(State())

    init(_ topics: [String], properties: KafkaProperties.List, time: any TimeSource = SystemTime()) {
        self.topics = topics
        self.properties = properties
        self.time = time
    }

    /// Blocks while another lane asks. Nil where the topic is not there yet or no broker answers; lanes that start in the
    /// same moment share that answer too.
    func count(of topic: String) -> Int? {
        state.withLock { state in
            if let known = state.counts[topic] { return known }
            if let after = state.askAgainAt, time.monotonicNanoseconds() < after { return nil }
            state.counts = ask()
            state.askAgainAt = time.monotonicNanoseconds() + Int64(Self.patience) * 1_000_000
            return state.counts[topic]
        }
    }

    private func ask() -> [String: Int] {
        guard let admin = try? KafkaAdmin(properties: properties, log: { _ in }) else { return [:] }
        var counts: [String: Int] = [:]
        for topic in topics {
            do throws(KafkaError) {
                counts[topic] = try admin.partitionCount(of: topic, timeoutMilliseconds: Self.patience)
            } catch  where error.isUnknownTopic {
                continue
            } catch {
                // What did not answer for one topic would be waited for again with the next.
                break
            }
        }
        return counts
    }
}
