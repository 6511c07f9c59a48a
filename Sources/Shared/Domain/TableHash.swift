/// What the rows mean, as one number that does not depend on the order in which they are visited: two databases with
/// equal hashes hold the same values with the same effective versions (D3). Not for secrets: it is no cryptographic
/// hash.
public struct TableHash: Hashable, Sendable, CustomStringConvertible {
    private var sums: (UInt64, UInt64) = (0, 0)
    public private(set) var rows = 0

    public init() {}

    public mutating func add(user: UserID, day: CalendarDay, row: SourceRow) {
        var mix = Mix()
        mix.add(user, day)
        mix.add(row.provenance)
        for metric in row.state.values.mask {
            mix.add(UInt64(metric.rawValue))
            mix.add(UInt64(bitPattern: Int64(row.state.values[metric] ?? 0)))
            mix.add(row.state.closed.has(metric) ? 1 : 0)
            mix.add(UInt64(bitPattern: row.state.version(of: metric)?.rawValue ?? 0))
        }
        add(mix)
    }

    public mutating func add(user: UserID, day: CalendarDay, canonical: CanonicalDay) {
        var mix = Mix()
        mix.add(user, day)
        mix.add(canonical.isFinal ? 1 : 0)
        for metric in canonical.values.mask {
            mix.add(UInt64(metric.rawValue))
            mix.add(UInt64(bitPattern: Int64(canonical.values[metric] ?? 0)))
            if let winner = canonical.winner(of: metric) { mix.add(winner) }
        }
        add(mix)
    }

    /// An entry of a device token; `isOwner`: nobody has registered the token later. When it was deactivated is no part of
    /// it, since no record says so.
    public mutating func add(token: DeviceTokenHash, user: UserID, entry: DeviceEntry, isOwner: Bool) {
        var mix = Mix()
        mix.add(token.bytes)
        mix.add(user.high)
        mix.add(user.low)
        mix.add(UInt64(bitPattern: entry.registered.rawValue))
        mix.add(UInt64(bitPattern: entry.withdrawn.rawValue))
        for text in isOwner ? entry.registration?.texts ?? [] : [] { mix.add(text.utf8) }
        add(mix)
    }

    private mutating func add(_ mix: Mix) {
        sums.0 &+= mix.states.0
        sums.1 &+= mix.states.1
        rows += 1
    }

    public static func == (left: TableHash, right: TableHash) -> Bool {
        left.sums == right.sums && left.rows == right.rows
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(sums.0)
        hasher.combine(sums.1)
    }

    /// 32 hexadecimal digits, then how many rows.
    public var description: String {
        func hex(_ word: UInt64) -> String {
            let digits = String(word, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        return "\(hex(sums.0))\(hex(sums.1))/\(rows)"
    }
}
