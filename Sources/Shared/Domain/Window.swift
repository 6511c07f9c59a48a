/// What the newest unchanged readings of one connection's recent days said, so that a re-send costs one row and not one
/// a day, without losing the newer version.
///
/// An entry says: *a reading with this version gave exactly these values for these metrics, and they are the stored
/// ones.* What a row means (its effective versions) is therefore row and entry together.
public struct Window: Hashable, Sendable {
    /// Days that a window spans, counted back from its newest day.
    public static let span = 35
    /// The newest format of `encoded`, whose first byte it is; every older one is read.
    public static let newestFormat: UInt8 = 2

    public struct Entry: Hashable, Sendable {
        public var version: Version
        public let mask: MetricSet
        /// Of the values and the `closed` bit.
        public let digest: UInt64

        public init(version: Version, mask: MetricSet, digest: UInt64) {
            self.version = version
            self.mask = mask
            self.digest = digest
        }

        public init(of reading: Reading) {
            self.init(version: reading.version, mask: reading.values.mask, digest: reading.digest)
        }

        /// Whether the reading says what the entry says; then only the version counts.
        public func isConfirmed(by reading: Reading) -> Bool {
            mask == reading.values.mask && digest == reading.digest
        }

        /// As `isConfirmed`, for a reading that was made an entry of: to do that is what costs.
        public func says(_ other: Entry) -> Bool {
            mask == other.mask && digest == other.digest
        }
    }

    /// Index 0 is the newest day; nil where nothing is known. Empty, or `span` long.
    private var entries: [Entry?] = []
    private var newest = CalendarDay(daysSinceEpoch: 0)

    public init() {}

    public var isEmpty: Bool { !entries.contains { $0 != nil } }

    /// The days that have an entry, the newest first.
    public var days: [CalendarDay] {
        entries.indices.filter { entries[$0] != nil }.map { newest.advanced(by: -$0) }
    }

    public subscript(day: CalendarDay) -> Entry? {
        let index = newest.days(since: day)
        return entries.indices.contains(index) ? entries[index] : nil
    }

    /// Whether an entry of this day can be kept without moving the window backwards.
    public func reaches(_ day: CalendarDay) -> Bool {
        entries.isEmpty || newest.days(since: day) < Self.span
    }

    /// The days whose entries have to be folded into their rows before an entry of this day is set.
    public func leaving(for day: CalendarDay) -> [CalendarDay] {
        // Every entry lies less than a span before the newest day.
        guard !entries.isEmpty, day > newest else { return [] }
        return days.filter { day.days(since: $0) >= Self.span }
    }

    /// Puts an entry in its place, or clears it. A day that is newer than the window moves it: what is in `leaving`
    /// must have been folded, since it is dropped. A day older than the window is not kept.
    public mutating func set(_ entry: Entry?, for day: CalendarDay) {
        if entries.isEmpty {
            guard entry != nil else { return }
            newest = day
            entries = Array(repeating: nil, count: Self.span)
        }
        let ahead = day.days(since: newest)
        if ahead > 0 {
            guard entry != nil else { return }
            let shift = min(ahead, Self.span)
            entries.removeLast(shift)
            entries.insert(contentsOf: repeatElement(nil, count: shift), at: 0)
            newest = day
        }
        let index = newest.days(since: day)
        guard entries.indices.contains(index) else { return }
        entries[index] = entry
    }

    /// Forgets the entries of days below the retention floor, whose rows are gone. Returns whether there were any.
    @discardableResult
    public mutating func discard(below floor: CalendarDay) -> Bool {
        guard newest.advanced(by: 1 - Self.span) < floor else { return false }
        var found = false
        for index in entries.indices where entries[index] != nil && newest.advanced(by: -index) < floor {
            entries[index] = nil
            found = true
        }
        return found
    }
}

extension Window {
    /// Format 1: the format, newest day (4 bytes), which days have an entry (5 bytes), then 20 bytes an entry: version,
    /// mask, digest; all big-endian. 710 bytes for a full window.
    ///
    /// Format 2 has, behind which days have an entry, which of them have a version of their own (5 bytes), the version of
    /// the others, then the own versions, then 12 bytes an entry: mask and digest. After a re-send all versions are the
    /// same: then a full window takes 443 bytes, and but for its head it is what it was before, which the database's log
    /// makes use of.
    ///
    /// - Parameter format: what the database says that all who read it know; a newer one is written as the newest here.
    /// - Returns: no bytes for an empty window.
    public func encoded(format: UInt8 = newestFormat) -> [UInt8] {
        var present: UInt64 = 0
        var common = Version(rawValue: 0)
        for index in entries.indices {
            guard let entry = entries[index] else { continue }
            present |= 1 << UInt64(index)
            common = max(common, entry.version)
        }
        guard present != 0 else { return [] }
        return format < 2 ? encodedOne(present) : encodedTwo(present, common)
    }

    private func encodedOne(_ present: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(10 + 20 * present.nonzeroBitCount)
        appendHead(1, present, to: &bytes)
        for case let entry? in entries {
            bytes.append(UInt64(bitPattern: entry.version.rawValue), count: 8)
            bytes.append(UInt64(entry.mask.rawValue), count: 4)
            bytes.append(entry.digest, count: 8)
        }
        return bytes
    }

    private func encodedTwo(_ present: UInt64, _ common: Version) -> [UInt8] {
        var own: UInt64 = 0
        for index in entries.indices {
            if let entry = entries[index], entry.version != common { own |= 1 << UInt64(index) }
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.lengthOfTwo(present: present, own: own))
        appendHead(2, present, to: &bytes)
        bytes.append(own, count: 5)
        bytes.append(UInt64(bitPattern: common.rawValue), count: 8)
        if own != 0 {
            for case let entry? in entries where entry.version != common {
                bytes.append(UInt64(bitPattern: entry.version.rawValue), count: 8)
            }
        }
        for case let entry? in entries {
            bytes.append(UInt64(entry.mask.rawValue), count: 4)
            bytes.append(entry.digest, count: 8)
        }
        return bytes
    }

    private func appendHead(_ format: UInt8, _ present: UInt64, to bytes: inout [UInt8]) {
        bytes.append(format)
        bytes.append(UInt64(UInt32(bitPattern: newest.daysSinceEpoch)), count: 4)
        bytes.append(present, count: 5)
    }

    private static func lengthOfTwo(present: UInt64, own: UInt64) -> Int {
        23 + 8 * own.nonzeroBitCount + 12 * present.nonzeroBitCount
    }

    /// Reads what `encoded` wrote in whatever format; no bytes are an empty window. Nil for a format that this build does
    /// not know, or for bytes that are none: taking those for an empty window would lose versions.
    public init?(encoded bytes: Span<UInt8>) {
        self.init()
        guard bytes.count > 0 else { return }
        guard bytes.count >= 10 else { return nil }
        newest = CalendarDay(daysSinceEpoch: Int32(bitPattern: UInt32(truncatingIfNeeded: bytes.word(1, 4))))
        let present = bytes.word(5, 5)
        guard present >> UInt64(Self.span) == 0 else { return nil }
        switch bytes[0] {
        case 1:
            guard bytes.count == 10 + 20 * present.nonzeroBitCount else { return nil }
            readOne(bytes, present)
        case 2:
            guard bytes.count >= 23 else { return nil }
            let own = bytes.word(10, 5)
            guard own & ~present == 0, bytes.count == Self.lengthOfTwo(present: present, own: own) else { return nil }
            readTwo(bytes, present, own)
        default: return nil
        }
    }

    private mutating func readOne(_ bytes: Span<UInt8>, _ present: UInt64) {
        entries = Array(repeating: nil, count: Self.span)
        var start = 10
        for index in 0..<Self.span where present >> UInt64(index) & 1 != 0 {
            entries[index] = Entry(
                version: Version(rawValue: Int64(bitPattern: bytes.word(start, 8))),
                mask: MetricSet(rawValue: UInt32(truncatingIfNeeded: bytes.word(start + 8, 4))),
                digest: bytes.word(start + 12, 8)
            )
            start += 20
        }
    }

    private mutating func readTwo(_ bytes: Span<UInt8>, _ present: UInt64, _ own: UInt64) {
        let common = Version(rawValue: Int64(bitPattern: bytes.word(15, 8)))
        entries = Array(repeating: nil, count: Self.span)
        var version = 23
        var start = 23 + 8 * own.nonzeroBitCount
        for index in 0..<Self.span where present >> UInt64(index) & 1 != 0 {
            var entry = Entry(
                version: common,
                mask: MetricSet(rawValue: UInt32(truncatingIfNeeded: bytes.word(start, 4))),
                digest: bytes.word(start + 4, 8)
            )
            start += 12
            if own >> UInt64(index) & 1 != 0 {
                entry.version = Version(rawValue: Int64(bitPattern: bytes.word(version, 8)))
                version += 8
            }
            entries[index] = entry
        }
    }
}

extension Span<UInt8> {
    /// So many bytes from there on as one number, the highest first.
    fileprivate func word(_ start: Int, _ count: Int) -> UInt64 {
        var word: UInt64 = 0
        for index in start..<(start + count) { word = word << 8 | UInt64(self[index]) }
        return word
    }
}

extension [UInt8] {
    /// The low bytes of a word, the highest first.
    fileprivate mutating func append(_ word: UInt64, count: Int) {
        var rest = word << UInt64(64 - 8 * count)
        for _ in 0..<count {
            append(UInt8(truncatingIfNeeded: rest >> 56))
            rest <<= 8
        }
    }
}

extension Reading {
    /// Of the values, which metrics they are, and the `closed` bit; not of the version.
    public var digest: UInt64 {
        var mix = Mix()
        mix.add(UInt64(values.mask.rawValue) << 1 | (closed ? 1 : 0))
        for metric in values.mask { mix.add(UInt64(bitPattern: Int64(values[metric] ?? 0))) }
        return mix.states.0
    }
}

extension SourceDay {
    /// Takes an entry's version over into the row, which then means by itself what both meant together.
    public mutating func fold(_ entry: Window.Entry?) {
        guard let entry else { return }
        raise(entry.mask, to: entry.version)
    }

    /// Applies a reading to row and entry together; what the two mean afterwards is what the naive registers of all
    /// readings would hold.
    ///
    /// The entry becomes the reading's if all of its metrics won, is dropped if only some did, and stays if none did.
    ///
    /// - Parameters:
    ///   - reading: one that the entry does not already confirm.
    ///   - entry: the connection's entry for this day; nil where there is none.
    ///   - keepsEntry: false for a day that the window does not reach: its row carries everything.
    /// - Returns: what it did by metric, and whether the row has to be written.
    public mutating func apply(
        _ reading: Reading,
        entry: inout Window.Entry?,
        keepsEntry: Bool
    ) -> (outcome: Outcome, isRowChanged: Bool) {
        let stored = self
        fold(entry)
        let outcome = apply(reading)
        let won = !outcome.changed.isEmpty || !outcome.confirmed.isEmpty
        guard won else {
            // Nothing new: row and entry stay as they are.
            self = stored
            return (outcome, false)
        }
        let all = outcome.older.isEmpty
        let covered = entry.map { $0.mask.isSubset(of: reading.values.mask) } ?? true
        entry = all && keepsEntry ? Window.Entry(of: reading) : nil
        if outcome.changed.isEmpty && all && keepsEntry && covered {
            // Only versions grew, and the new entry holds them all.
            self = stored
            return (outcome, false)
        }
        return (outcome, true)
    }
}
