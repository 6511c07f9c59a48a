/// What the tables mean, as texts: by table and key, columns with their values. The model makes one from the log, the
/// reader one from PostgreSQL; equal states are equal meanings.
struct TableState {
    enum Table: String, CaseIterable {
        case accounts, accountSources, connections, devices, sourceDays, canonicalDays
    }

    var tables: [Table: [String: [String: String]]] = [:]

    mutating func set(_ table: Table, _ key: String, _ columns: [String: String]) {
        tables[table, default: [:]][key] = columns
    }

    func rows(_ table: Table) -> [String: [String: String]] { tables[table] ?? [:] }

    /// Where the two differ: the table, the key and the names of what differs, never a value.
    func differences(from model: TableState) -> [Difference] {
        var found: [Difference] = []
        for table in Table.allCases {
            let (mine, theirs) = (rows(table), model.rows(table))
            for (key, columns) in theirs where mine[key] == nil {
                let names = columns.keys.sorted().joined(separator: ", ")
                found.append(Difference(table: table, key: key, what: "missing in the database (\(names))"))
            }
            for (key, columns) in mine {
                guard let expected = theirs[key] else {
                    found.append(Difference(table: table, key: key, what: "only in the database"))
                    continue
                }
                if columns == expected { continue }
                found.append(Difference(table: table, key: key, what: Self.names(table, columns, expected)))
            }
        }
        return found.sorted { ($0.table.rawValue, $0.key) < ($1.table.rawValue, $1.key) }
    }

    /// The names of the columns that differ; of a register also which part of it.
    private static func names(_ table: Table, _ mine: [String: String], _ theirs: [String: String]) -> String {
        let labels = table == .sourceDays ? ["value", "version", "closed"] : ["value", "source", "origin"]
        var names: [String] = []
        for name in Set(mine.keys).union(theirs.keys).sorted() where mine[name] != theirs[name] {
            guard let left = mine[name], let right = theirs[name] else {
                names.append("\(name): \(mine[name] == nil ? "missing" : "not expected")")
                continue
            }
            let parts = [left, right].map { $0.split(separator: "/", omittingEmptySubsequences: false) }
            let differing = parts[0].indices.filter { parts[1].indices.contains($0) && parts[0][$0] != parts[1][$0] }
            names.append("\(name): \(differing.map { $0 < 3 ? labels[$0] : "more" }.joined(separator: "+"))")
        }
        return names.joined(separator: ", ")
    }

    struct Difference: CustomStringConvertible {
        let table: Table
        let key: String
        let what: String

        var description: String { "\(table.rawValue) [\(key)] \(what)" }
    }

    /// One number for the rows of some users, independent of any order (FNV-1a, summed).
    func hash(where isIncluded: (String) -> Bool) -> UInt64 {
        var sum: UInt64 = 0
        for (table, rows) in tables {
            for (key, columns) in rows where isIncluded(key) {
                var hash: UInt64 = 0xcbf2_9ce4_8422_2325
                let text = ([table.rawValue, key] + columns.keys.sorted().flatMap { [$0, columns[$0] ?? ""] })
                for byte in text.joined(separator: "\u{1}").utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
                sum &+= hash
            }
        }
        return sum
    }
}
