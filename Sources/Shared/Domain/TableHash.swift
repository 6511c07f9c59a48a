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

/// Two lanes of a multiply-and-xor chain (the finaliser of SplitMix64), so that a row's hash depends on every word
/// and on their order.
private struct Mix {
    var states: (UInt64, UInt64) = (0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9)

    mutating func add(_ word: UInt64) {
        states.0 = Self.finalise(states.0 ^ word)
        states.1 = Self.finalise(states.1 &+ word &* 0x94d0_49bb_1331_11eb)
    }

    mutating func add(_ user: UserID, _ day: CalendarDay) {
        add(user.high)
        add(user.low)
        add(UInt64(bitPattern: Int64(day.daysSinceEpoch)))
    }

    mutating func add(_ provenance: Provenance) {
        add(UInt64(provenance.source.rawValue))
        add(UInt64(provenance.origin.utf8.count))
        for byte in provenance.origin.utf8 { add(UInt64(byte)) }
    }

    private static func finalise(_ word: UInt64) -> UInt64 {
        var state = word &+ 0x9e37_79b9_7f4a_7c15
        state = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        state = (state ^ (state >> 27)) &* 0x94d0_49bb_1331_11eb
        return state ^ (state >> 31)
    }
}
