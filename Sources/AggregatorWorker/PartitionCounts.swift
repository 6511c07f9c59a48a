internal import Kafka
internal import ServiceRuntime
internal import Synchronization

/// How many partitions the topics have: asked for all lanes at once, since a client is threads and connections.
final class PartitionCounts: Sendable {
    /// Of one question, in milliseconds. A lane that starts while no broker answers waits this long, and then in its group.
    private static let patience: Int32 = 3000
    /// For how long an answer serves all who ask, in nanoseconds: lanes start in the same moment, and one that is made anew
    /// (its topic was) asks again.
    static let freshness: Int64 = 10_000_000_000

    private struct State {
        var counts: [String: Int] = [:]
        /// In monotonic nanoseconds.
        var askAgainAt: Int64?
    }

    private let time: any TimeSource
    private let ask: @Sendable () -> [String: Int]
    private let state = Mutex(State())

    /// `ask` gives what it could find out; it blocks.
    init(time: any TimeSource = SystemTime(), ask: @escaping @Sendable () -> [String: Int]) {
        self.time = time
        self.ask = ask
    }

    convenience init(_ topics: [String], properties: KafkaProperties.List) {
        self.init { Self.ask(topics, properties) }
    }

    /// Blocks while another lane asks. Nil where the topic was never seen: it is not there yet, or no broker answered.
    func count(of topic: String) -> Int? {
        state.withLock { state in
            if state.askAgainAt.map({ time.monotonicNanoseconds() >= $0 }) ?? true {
                // What was known of a topic that does not answer now is better than nothing.
                state.counts.merge(ask()) { $1 }
                state.askAgainAt = time.monotonicNanoseconds() + Self.freshness
            }
            return state.counts[topic]
        }
    }

    private static func ask(_ topics: [String], _ properties: KafkaProperties.List) -> [String: Int] {
        guard let admin = try? KafkaAdmin(properties: properties, log: { _ in }) else { return [:] }
        var counts: [String: Int] = [:]
        for topic in topics {
            do throws(KafkaError) {
                counts[topic] = try admin.partitionCount(of: topic, timeoutMilliseconds: patience)
            } catch {
                // Who does not answer for one topic would be waited for again with the next.
                if [KafkaError.Code.timedOut, KafkaError.Code.transport].contains(error.code) { return counts }
            }
        }
        return counts
    }
}
