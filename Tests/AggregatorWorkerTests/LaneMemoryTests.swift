import Testing

@testable import AggregatorWorker

@Suite struct `A lane's memory` {
    static let mebibyte = 1 << 20

    @Test(arguments: [1, 4, 32, 64, 256], [1, 2, 16])
    func `what all lanes hold stays within what the process gives`(partitions: Int, liveLanes: Int) {
        let given = 128 * Self.mebibyte
        let lanes = liveLanes + 3
        let lane = LaneMemory(processBytes: given, lanes: lanes, kinds: 4, partitions: partitions)
        // Every partition of each of the four topics full, and every lane.
        let ahead = 4 * partitions * lane.queuedKilobytes * 1024
        #expect(ahead <= given / 2 || lane.queuedKilobytes == LaneMemory.queued.lowerBound)
        #expect(ahead <= given)
        #expect(lanes * lane.bufferBytes <= given / 2)
    }

    @Test func `few partitions have what is quickest, and the usual number half a mebibyte each`() {
        func lane(_ partitions: Int?) -> LaneMemory {
            LaneMemory(processBytes: 128 * Self.mebibyte, lanes: 5, kinds: 4, partitions: partitions)
        }
        #expect(lane(4).queuedKilobytes == 4096)
        #expect(lane(4).fetchBytes == Self.mebibyte)
        #expect(lane(32).queuedKilobytes == 512)
        #expect(lane(32).fetchBytes == Self.mebibyte / 2)
        #expect(lane(4096).queuedKilobytes == 128)
        #expect(lane(4096).fetchBytes == Self.mebibyte / 4)
    }

    @Test func `a topic that could not be asked counts as one of the usual size`() {
        let unknown = LaneMemory(processBytes: 128 * Self.mebibyte, lanes: 5, kinds: 4, partitions: nil)
        #expect(unknown == LaneMemory(processBytes: 128 * Self.mebibyte, lanes: 5, kinds: 4, partitions: 32))
        // The mock cluster can name a topic without partitions.
        #expect(LaneMemory(processBytes: 1, lanes: 0, kinds: 0, partitions: 0).queuedKilobytes == 128)
    }
}
