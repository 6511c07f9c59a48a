import Aggregation
import Kafka
import Testing

@testable import AggregatorWorker

@Suite struct `A partition that is tried again` {
    private static func partition() -> LanePartition {
        LanePartition(
            name: TopicPartition(topic: "days", partition: 0),
            brake: Brake(encoded: nil, limits: .init(window: 100, sharePercent: 20, run: 50))
        )
    }

    @Test func `only moved rows in a row count as such, whatever else failed before`() {
        var partition = Self.partition()
        for _ in 0..<9 { partition.noteFailure(isMovedRow: false) }
        partition.noteFailure(isMovedRow: true)
        #expect(partition.failures == 10)
        #expect(partition.movedRows == 1)
        partition.noteFailure(isMovedRow: true)
        #expect(partition.movedRows == 2)
        partition.noteFailure(isMovedRow: false)
        #expect(partition.movedRows == 0)
        partition.noteFailure(isMovedRow: true)
        partition.finish(0)
        #expect(partition.failures == 0 && partition.movedRows == 0)
    }

    @Test func `letters that were acknowledged are known until the position is past them`() {
        var letters = SentLetters(epoch: 3)
        for offset: Int64 in [10, 40, 90] { letters.note(offset) }
        letters.forget(before: 41)
        #expect(!letters.has(10) && !letters.has(40) && letters.has(90) && !letters.has(91))
    }
}
