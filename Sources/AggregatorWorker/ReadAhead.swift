/// What a lane read and decoded while the database worked on a batch: it comes before anything that is polled later, in
/// the order in which it came.
struct ReadAhead<Item> {
    private struct Entry {
        let item: Item
        let days: Int
        let bytes: Int
    }

    private var entries: [Entry] = []
    private var next = 0
    private var days = 0
    private var bytes = 0

    var isEmpty: Bool { next == entries.count }
    var waiting: some BidirectionalCollection<Item> { entries[next...].lazy.map(\.item) }

    /// About one batch is enough: more would only take memory.
    func hasRoom(_ limits: BatchCut.Limits) -> Bool {
        entries.count - next < limits.records && days < limits.days && bytes < limits.bytes
    }

    mutating func append(_ item: Item, days: Int, bytes: Int) {
        // What was taken is let go before the array would grow for it.
        if next > 0 && entries.count == entries.capacity {
            entries.removeFirst(next)
            next = 0
        }
        entries.append(Entry(item: item, days: days, bytes: bytes))
        self.days += days
        self.bytes += bytes
    }

    mutating func popFirst() -> Item? {
        guard next < entries.count else { return nil }
        let entry = entries[next]
        next += 1
        days -= entry.days
        bytes -= entry.bytes
        if next == entries.count { removeAll() }
        return entry.item
    }

    mutating func removeAll() {
        entries.removeAll(keepingCapacity: true)
        next = 0
        days = 0
        bytes = 0
    }
}
