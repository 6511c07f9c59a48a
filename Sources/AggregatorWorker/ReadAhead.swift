/// What a lane read and decoded while the database worked on a batch: it comes before anything that is polled later, in
/// the order in which it came.
struct ReadAhead<Item> {
    private var items: [Item] = []
    private var next = 0
    private var days = 0
    private var bytes = 0

    var isEmpty: Bool { next == items.count }
    var waiting: ArraySlice<Item> { items[next...] }

    /// About one batch is enough: more would only take memory.
    func hasRoom(_ limits: BatchCut.Limits) -> Bool {
        items.count < limits.records && days < limits.days && bytes < limits.bytes
    }

    mutating func append(_ item: Item, days: Int, bytes: Int) {
        items.append(item)
        self.days += days
        self.bytes += bytes
    }

    mutating func popFirst() -> Item? {
        guard next < items.count else { return nil }
        defer {
            next += 1
            if next == items.count { removeAll() }
        }
        return items[next]
    }

    mutating func removeAll() {
        items.removeAll(keepingCapacity: true)
        next = 0
        days = 0
        bytes = 0
    }
}
