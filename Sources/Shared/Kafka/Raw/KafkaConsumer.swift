import CRdKafka
import Synchronization

/// A member of a consumer group, for one thread alone. Rebalances are returned by `poll`, never done behind its back:
///
/// - after `.assigned`, claim the partitions (this may take a while), then `assign` them with their start;
/// - after `.revoked`, finish what is in flight, then `unassign`.
///
/// `poll` must be called at least every `max.poll.interval.ms`, or the member is thrown out: `.error` tells, then
/// `.revoked`.
public final class KafkaConsumer {
    /// After an orderly close, in seconds; most clients end within milliseconds.
    private static let endPatience = 2

    private let client: ClientHandle
    private let queue: OpaquePointer
    private var topicNames = TopicNames()
    private var isClosed = false
    /// The library keeps a pause beyond the assignment it was made in; `assign` and `unassign` end it.
    private var paused: Set<TopicPartition> = []

    /// Joins the group.
    ///
    /// - Parameters:
    ///   - properties: librdkafka's, `bootstrap.servers` and `group.id` among them; they override the defaults.
    ///   - topics: the names to subscribe to.
    ///   - log: the library's lines.
    /// - Throws: when a property is refused. Brokers are not needed yet.
    public init(
        properties: [(String, String)],
        topics: [String],
        log: @escaping KafkaLog
    ) throws(KafkaError) {
        let events =
            RD_KAFKA_EVENT_FETCH | RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_OFFSET_COMMIT
            | RD_KAFKA_EVENT_STATS
        let configuration = try ConfigurationHandle(
            defaults: KafkaProperties.consumer,
            properties: properties,
            events: events
        )
        if configuration.value(of: "partition.assignment.strategy")?.contains(KafkaProperties.refusedAssignor) ?? true {
            throw KafkaError(
                code: KafkaError.Code.invalidArgument,
                detail: "partition.assignment.strategy must be an eager one (range or roundrobin)"
            )
        }
        client = try ClientHandle(RD_KAFKA_CONSUMER, configuration, log: log)
        // Errors and statistics come by the same queue as records.
        try KafkaError.check(rd_kafka_poll_set_consumer(client.pointer), "group.id")
        queue = rd_kafka_queue_get_consumer(client.pointer)
        let list = PartitionList(topics.map { TopicPartition(topic: $0, partition: Int32(RD_KAFKA_PARTITION_UA)) })
        let code = rd_kafka_subscribe(client.pointer, list.pointer)
        // `deinit` frees the queue: everything is set by now.
        try KafkaError.check(code, "subscribe")
    }

    deinit {
        close(timeoutMilliseconds: 0)
        rd_kafka_queue_destroy(queue)
    }

    /// Waits up to the time given for the next thing to do.
    public func poll(timeoutMilliseconds: Int32) -> KafkaPoll {
        if isClosed { return .nothing }
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        // What concerns the client alone (an offset was committed) does not count as an end, whatever the time.
        while true {
            guard let event = rd_kafka_queue_poll(queue, deadline.remaining) else { return .nothing }
            if let found = take(event) { return found }
        }
    }

    /// Starts reading these partitions, and only these, none of them paused. Call it once after each `.assigned`, with
    /// nothing if none is to be read now.
    public func assign(_ partitions: [(TopicPartition, KafkaStart)]) throws(KafkaError) {
        endPauses()
        let list = PartitionList(capacity: partitions.count)
        for (partition, start) in partitions { list.add(partition, offset: start.rawOffset) }
        try KafkaError.check(rd_kafka_assign(client.pointer, list.pointer), "assign")
    }

    /// Gives all partitions back. Call it once after each `.revoked`.
    public func unassign() throws(KafkaError) {
        endPauses()
        try KafkaError.check(rd_kafka_assign(client.pointer, nil), "unassign")
    }

    /// Fetches no more of these partitions; records that wait in the client are dropped and fetched again on `resume`.
    public func pause(_ partitions: [TopicPartition]) throws(KafkaError) {
        paused.formUnion(partitions)
        let list = PartitionList(partitions)
        try KafkaError.check(rd_kafka_pause_partitions(client.pointer, list.pointer), "pause")
        if let error = list.firstError() { throw error }
    }

    /// Goes on behind the last record that `poll` returned.
    public func resume(_ partitions: [TopicPartition]) throws(KafkaError) {
        paused.subtract(partitions)
        let list = PartitionList(partitions)
        try KafkaError.check(rd_kafka_resume_partitions(client.pointer, list.pointer), "resume")
        if let error = list.firstError() { throw error }
    }

    /// Tells the group how far these partitions are read (`offset`: of the next record). Does not wait; a refusal is a
    /// log line, since the group's offsets are only for people and tools that watch lag.
    public func commit(_ offsets: [(TopicPartition, offset: Int64)]) throws(KafkaError) {
        if offsets.isEmpty { return }
        let list = PartitionList(capacity: offsets.count)
        for (partition, offset) in offsets { list.add(partition, offset: max(0, offset)) }
        try KafkaError.check(rd_kafka_commit(client.pointer, list.pointer, 1), "commit")
    }

    /// The group's committed next offsets; `nil` where there is none. Blocks up to the time given.
    public func committed(
        _ partitions: [TopicPartition],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [Int64?] {
        try client.committed(partitions, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// The log's ends as the last fetch saw them, for figures of lag; nil before the first fetch. Does not block.
    public func cachedWatermarks(_ partition: TopicPartition) -> KafkaWatermarks? {
        client.cachedWatermarks(partition)
    }

    /// Wakes the thread that fetches this partition, by a question to its leader whose answer nobody waits for longer
    /// than the time given.
    public func wakeFetcher(_ partition: TopicPartition, timeoutMilliseconds: Int32) {
        client.askForEnd(partition, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// Blocks up to the time given.
    public func watermarks(
        _ partition: TopicPartition,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> KafkaWatermarks {
        try client.watermarks(partition, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// Blocks up to the time given.
    public func clusterID(timeoutMilliseconds: Int32) throws(KafkaError) -> String {
        try client.clusterID(timeoutMilliseconds: timeoutMilliseconds)
    }

    public var fatalError: KafkaError? { client.fatalError }

    /// Leaves the group, so that others get the partitions at once; waits no longer than the time given, nor does then
    /// whoever lets go of this object. With 0 the group finds out by its session time-out. The client itself ends when its
    /// last record and this object are gone.
    public func close(timeoutMilliseconds: Int32) {
        if isClosed { return }
        isClosed = true
        guard timeoutMilliseconds > 0, fatalError == nil, let closing = rd_kafka_queue_new(client.pointer) else {
            return
        }
        defer { rd_kafka_queue_destroy(closing) }
        if let error = rd_kafka_consumer_close_queue(client.pointer, closing) {
            client.sink.error(KafkaError(taking: error))
            return
        }
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        while rd_kafka_consumer_closed(client.pointer) == 0, deadline.remaining > 0 {
            guard let event = rd_kafka_queue_poll(closing, min(50, deadline.remaining)) else { continue }
            if rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE { rd_kafka_assign(client.pointer, nil) }
            rd_kafka_event_destroy(event)
        }
        // What is left to do is the library's affair, and takes a session's time where a broker does not answer; for ever in
        // 2.0.2, where a topic was deleted that was read.
        let hasClosed = rd_kafka_consumer_closed(client.pointer) != 0
        client.endPatience.store(hasClosed ? Self.endPatience : 0, ordering: .releasing)
    }

    /// Before an assignment, not after: a resumed partition goes on where it was, not where it is told.
    private func endPauses() {
        if paused.isEmpty { return }
        let list = PartitionList(Array(paused))
        // One that is gone by now is not paused either.
        rd_kafka_resume_partitions(client.pointer, list.pointer)
        paused = []
    }

    /// - Returns: what the caller has to know; `nil` when the event was dealt with here.
    private func take(_ event: OpaquePointer) -> KafkaPoll? {
        if rd_kafka_event_type(event) == RD_KAFKA_EVENT_FETCH, let message = rd_kafka_event_message_next(event) {
            let topic = topicNames.name(of: message.pointee.rkt)
            // The event owns the message, and the record owns the event from here on.
            return .record(
                KafkaRecord(UnsafeMutablePointer(mutating: message), of: event, topic: topic, client: client)
            )
        }
        defer { rd_kafka_event_destroy(event) }
        switch rd_kafka_event_type(event) {
        case RD_KAFKA_EVENT_REBALANCE:
            let partitions = PartitionList.elements(of: rd_kafka_event_topic_partition_list(event)).map(
                TopicPartition.init
            )
            let isAssignment = rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS
            return isAssignment ? .assigned(partitions) : .revoked(partitions)
        case RD_KAFKA_EVENT_ERROR:
            let error = KafkaError(event: event, client: client)
            guard let partition = rd_kafka_event_topic_partition(event) else { return .error(error) }
            defer { rd_kafka_topic_partition_destroy(partition) }
            return .partitionError(TopicPartition(partition.pointee), error)
        case RD_KAFKA_EVENT_OFFSET_COMMIT:
            let code = rd_kafka_event_error(event)
            if code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__NO_OFFSET {
                client.sink.error(KafkaError(code, "commit"))
            }
            return nil
        case RD_KAFKA_EVENT_STATS:
            client.sink.statistics(rd_kafka_event_stats(event).map { String(cString: $0) } ?? "")
            return nil
        default:
            return nil
        }
    }
}

extension ClientHandle {
    func committed(
        _ partitions: [TopicPartition],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [Int64?] {
        let list = PartitionList(partitions)
        try KafkaError.check(rd_kafka_committed(pointer, list.pointer, timeoutMilliseconds), "committed offsets")
        if let error = list.firstError() { throw error }
        return list.elements.map { $0.offset >= 0 ? $0.offset : nil }
    }
}
