/// What a lane may hold of records that nobody has applied yet: its share of what the process gives them.
struct LaneMemory: Hashable, Sendable {
    /// Of records that the lane has polled, by their size in the log.
    let bufferBytes: Int
    /// What librdkafka fetches ahead of one partition; it looks at this before it asks, so one answer may come on top.
    let queuedKilobytes: Int
    /// How much of one partition an answer of the broker holds; of a batch that is larger it sends all.
    let fetchBytes: Int

    /// More of one partition is no quicker, and less than a large record would stop and go: with very many partitions the
    /// least of each is more than the half.
    static let queued = 128...4096
    static let fetched = 262_144...1_048_576
    /// Taken where the topic can't be asked how many it has: the number that `daybook migrate` makes.
    static let usualPartitions = 32

    /// - Parameters:
    ///   - processBytes: for all lanes of the process.
    ///   - lanes: of the process, of all kinds.
    ///   - kinds: how many topics they read; lanes of one kind share its topic's partitions.
    ///   - partitions: of the topic that the lane reads; all of them may come to this process.
    init(processBytes: Int, lanes: Int, kinds: Int, partitions: Int?) {
        bufferBytes = processBytes / 2 / max(1, lanes)
        let ahead = processBytes / 2 / max(1, kinds) / max(1, partitions ?? Self.usualPartitions)
        queuedKilobytes = min(max(ahead / 1024, Self.queued.lowerBound), Self.queued.upperBound)
        fetchBytes = min(max(ahead, Self.fetched.lowerBound), Self.fetched.upperBound)
    }
}
