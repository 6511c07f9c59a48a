import Testing

@testable import AggregatorWorker

@Suite struct `What a lane reads ahead` {
    private let limits = BatchCut.Limits(records: 5, days: 40, bytes: 1000)

    @Test func `comes back in its order, and all of it`() {
        var ahead = ReadAhead<Int>()
        #expect(ahead.isEmpty && ahead.popFirst() == nil)
        for item in 0..<3 { ahead.append(item, days: 1, bytes: 1) }
        #expect(ahead.popFirst() == 0)
        ahead.append(3, days: 1, bytes: 1)
        #expect(Array(ahead.waiting) == [1, 2, 3])
        #expect([ahead.popFirst(), ahead.popFirst(), ahead.popFirst(), ahead.popFirst()] == [1, 2, 3, nil])
        #expect(ahead.isEmpty)
    }

    @Test func `is bounded in records, days and bytes, until it was taken`() {
        for (days, bytes, count) in [(1, 1, 5), (15, 1, 3), (1, 600, 2)] {
            var ahead = ReadAhead<Int>()
            var taken = 0
            while ahead.hasRoom(limits) {
                ahead.append(taken, days: days, bytes: bytes)
                taken += 1
            }
            #expect(taken == count)
            // What was taken makes room.
            #expect(ahead.popFirst() == 0)
            #expect(ahead.hasRoom(limits))
            while ahead.popFirst() != nil {}
            #expect(ahead.hasRoom(limits))
        }
    }

    @Test func `is forgotten with the assignment it was read in`() {
        var ahead = ReadAhead<Int>()
        ahead.append(1, days: 50, bytes: 1)
        ahead.removeAll()
        #expect(ahead.isEmpty && ahead.popFirst() == nil && ahead.hasRoom(limits))
    }
}
