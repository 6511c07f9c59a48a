import Aggregation
import Observability
import Testing

@testable import AggregatorWorker

@Suite struct `Cutting a batch` {
    private let limits = BatchCut.Limits(records: 10, days: 100, bytes: 1000)
    private let brake = Brake(limits: .init(window: 1000, sharePercent: 20, run: 5))

    private func items(_ count: Int, days: Int = 1, bytes: Int = 10, poison: Bool = false) -> [BatchCut.Item] {
        Array(repeating: BatchCut.Item(days: days, bytes: bytes, isPoison: poison, isCounted: true), count: count)
    }

    @Test func `records, days and bytes bound a batch, and one record always goes`() {
        #expect(BatchCut(items(30), limits: limits, brake: brake).count == 10)
        #expect(BatchCut(items(30, days: 30), limits: limits, brake: brake).count == 3)
        #expect(BatchCut(items(30, bytes: 400), limits: limits, brake: brake).count == 2)
        #expect(BatchCut(items(3, days: 5000, bytes: 5000), limits: limits, brake: brake).count == 1)
    }

    @Test func `a batch is cut at the record that trips the brake; nothing behind it is sent (C3)`() {
        let cut = BatchCut(items(2) + items(8, poison: true), limits: limits, brake: brake)
        #expect(cut.count == 7 && cut.tripsBrake && cut.brake.isOn)
    }

    @Test func `heartbeats are not counted by the brake`() {
        let heartbeat = BatchCut.Item(days: 1, bytes: 1, isPoison: false, isCounted: false)
        let cut = BatchCut(items(4, poison: true) + [heartbeat] + items(1, poison: true), limits: limits, brake: brake)
        #expect(cut.tripsBrake && cut.count == 6)
    }

    @Test func `a digest tells records apart by every byte`() {
        func digest(_ bytes: [UInt8]) -> UInt64 {
            var hash = RecordDigest.Hash()
            bytes.withUnsafeBytes { hash.add($0) }
            return hash.value
        }
        var seen: Set<UInt64> = [digest([])]
        for length in 1...40 {
            for changed in 0..<length {
                var bytes = Array(repeating: UInt8(0), count: length)
                bytes[changed] = 1
                seen.insert(digest(bytes))
            }
            seen.insert(digest(Array(repeating: 0, count: length)))
        }
        #expect(seen.count == 1 + 40 * 41 / 2 + 40)
    }

    @Test func `the catalogue of metrics is sound`() {
        #expect(AggregatorMetric.all.flatMap(\.problems).isEmpty)
    }
}
