internal import Kafka
internal import ServiceRuntime

/// What the lane's thread does while the database works on a batch.
extension Lane {
    /// Reads and decodes one record; false where there is nothing to do. A rebalance that comes meanwhile is kept for the
    /// next poll, so that it never meets a batch in the middle.
    func readAhead() -> Bool {
        guard isApplying, heldPoll == nil, ahead.hasRoom(processor.limits) else { return false }
        let next = consumer.poll(timeoutMilliseconds: 0)
        switch next {
        case .nothing:
            wakeFetcher()
            return false
        case .record(let record):
            let pending = reader.read(record)
            ahead.append(pending, days: pending.content.dayCount, bytes: record.byteCount)
            return true
        default:
            heldPoll = next
            return false
        }
    }

    /// Where the log has more and nothing comes: librdkafka stops to fetch while its queues are full, and looks again
    /// only when something else wakes that thread, or a second later.
    private func wakeFetcher() {
        let now = time.monotonicNanoseconds()
        guard now >= wakeFetcherAt else { return }
        wakeFetcherAt = now + Self.fetcherInterval
        guard let name = partitions.values.first(where: hasMore)?.name else { return }
        // A transaction is open meanwhile: whoever does not answer at once is not waited for, nor asked again soon.
        consumer.wakeFetcher(name, timeoutMilliseconds: Self.fetcherPatience)
        let after = time.monotonicNanoseconds()
        if after - now >= Int64(Self.fetcherPatience) * 1_000_000 { wakeFetcherAt = after + Self.fetcherPenalty }
    }

    /// Whether the log goes on behind what was polled, as far as the last fetch knew.
    private func hasMore(_ partition: LanePartition) -> Bool {
        guard partition.isReading, !paused.contains(partition.name),
            let high = consumer.cachedWatermarks(partition.name)?.high
        else { return false }
        let last = ahead.waiting.last { $0.record.topicPartition == partition.name } ?? partition.waiting.last
        return (last?.record.offset ?? partition.position - 1) + 1 < high
    }
}
