public import Domain

/// Where a row lies in its table. It holds for as long as the account's lock is held under which it was read.
public struct RowPlace: Hashable, Sendable {
    public let block: UInt32
    public let offset: UInt16

    public init(block: UInt32, offset: UInt16) {
        self.block = block
        self.offset = offset
    }
}

/// The rows of the days that a batch works on, as they were read under the locks.
public struct StoredDays: Sendable {
    public struct Row: Sendable {
        public let key: UserDay
        public let row: SourceRow
        public let place: RowPlace?

        public init(key: UserDay, row: SourceRow, place: RowPlace?) {
            self.key = key
            self.row = row
            self.place = place
        }
    }

    /// Sorted by user, day and provenance.
    public let rows: [Row]
    /// Sorted by key.
    private let canonical: [(key: UserDay, place: RowPlace)]

    public init() {
        rows = []
        canonical = []
    }

    /// - Parameters:
    ///   - rows: in any order.
    ///   - canonical: which canonical days are stored, and where, in any order.
    public init(_ rows: [Row], canonical: [(key: UserDay, place: RowPlace)]) {
        // In place: a row that is handed over is held, with all that hangs on it.
        let areSorted = rows.indices.dropFirst().allSatisfy { index in
            rows[index - 1].key < rows[index].key
                || rows[index - 1].key == rows[index].key
                    && rows[index - 1].row.provenance < rows[index].row.provenance
        }
        self.rows = areSorted ? rows : rows.sorted(by: Self.precedes)
        let isSorted = canonical.indices.dropFirst().allSatisfy { canonical[$0 - 1].key < canonical[$0].key }
        self.canonical = isSorted ? canonical : canonical.sorted { $0.key < $1.key }
    }

    /// For days that come from elsewhere than the database.
    public init(_ days: [UserDay: [SourceRow]]) {
        let rows = days.flatMap { key, rows in rows.map { Row(key: key, row: $0, place: nil) } }
        self.init(rows, canonical: [])
    }

    private static func precedes(_ left: Row, _ right: Row) -> Bool {
        left.key == right.key ? left.row.provenance < right.row.provenance : left.key < right.key
    }

    /// The days that have rows, in order.
    public var keys: [UserDay] {
        var keys: [UserDay] = []
        for row in rows where keys.last != row.key { keys.append(row.key) }
        return keys
    }

    /// A day's rows.
    public subscript(key: UserDay) -> ArraySlice<Row> {
        let start = first { $0.key >= key }
        var end = start
        while end < rows.endIndex && rows[end].key == key { end += 1 }
        return rows[start..<end]
    }

    /// Where the rows of a user begin and end.
    public func range(of user: UserID) -> Range<Int> {
        let start = first { $0.key.user >= user }
        var end = start
        while end < rows.endIndex && rows[end].key.user == user { end += 1 }
        return start..<end
    }

    /// Where the canonical day lies; nil where there is none.
    public func canonicalPlace(of key: UserDay) -> RowPlace? {
        var hint = 0
        return canonicalPlace(of: key, near: &hint)
    }

    /// Where the canonical day lies, for keys that are asked for in order.
    ///
    /// - Parameters:
    ///   - key: not before the one that was asked for with this hint last, or it is found a little slower.
    ///   - hint: begins with 0.
    /// - Returns: nil where there is none.
    public func canonicalPlace(of key: UserDay, near hint: inout Int) -> RowPlace? {
        var steps = 0
        while hint < canonical.count && canonical[hint].key < key && steps < 4 {
            hint += 1
            steps += 1
        }
        if hint < canonical.count && canonical[hint].key == key { return canonical[hint].place }
        var low = 0
        var high = canonical.count
        while low < high {
            let middle = (low + high) / 2
            if canonical[middle].key < key { low = middle + 1 } else { high = middle }
        }
        hint = low
        return low < canonical.count && canonical[low].key == key ? canonical[low].place : nil
    }

    /// The first row of which this holds; it holds for all behind it too.
    private func first(_ holds: (Row) -> Bool) -> Int {
        var low = 0
        var high = rows.count
        while low < high {
            let middle = (low + high) / 2
            if holds(rows[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
