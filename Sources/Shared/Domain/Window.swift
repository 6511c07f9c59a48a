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

    /// Index 0 is the newest day; blank where nothing is known. Empty, or `span` long.
    private var entries: [Entry] = []
    /// A bit for each index where something is known.
    private var present: UInt64 = 0
    private var newest = CalendarDay(daysSinceEpoch: 0)

    private static var blank: Entry { Entry(version: Version(rawValue: 0), mask: MetricSet(), digest: 0) }

    public init() {}

    public var isEmpty: Bool { present == 0 }

    /// The days that have an entry, the newest first.
    public var days: [CalendarDay] {
        entries.indices.filter(isKnown).map { newest.advanced(by: -$0) }
    }

    public subscript(day: CalendarDay) -> Entry? {
        let index = newest.days(since: day)
        return isKnown(index) ? entries[index] : nil
    }

    private func isKnown(_ index: Int) -> Bool {
        entries.indices.contains(index) && present >> UInt64(index) & 1 != 0
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
            entries = Array(repeating: Self.blank, count: Self.span)
        }
        let ahead = day.days(since: newest)
        if ahead > 0 {
            guard entry != nil else { return }
            let shift = min(ahead, Self.span)
            entries.removeLast(shift)
            entries.insert(contentsOf: repeatElement(Self.blank, count: shift), at: 0)
            present = present << UInt64(shift) & (1 << UInt64(Self.span) - 1)
            newest = day
        }
        let index = newest.days(since: day)
        guard entries.indices.contains(index) else { return }
        if let entry {
            entries[index] = entry
            present |= 1 << UInt64(index)
        } else {
            clear(index)
        }
    }

    private mutating func clear(_ index: Int) {
        entries[index] = Self.blank
        present &= ~(1 << UInt64(index))
    }

    /// Forgets the entries of days below the retention floor, whose rows are gone. Returns whether there were any.
    @discardableResult
    public mutating func discard(below floor: CalendarDay) -> Bool {
        guard newest.advanced(by: 1 - Self.span) < floor else { return false }
        var found = false
        for index in entries.indices where isKnown(index) && newest.advanced(by: -index) < floor {
            clear(index)
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
        guard present != 0 else { return [] }
        return format < 2 ? encodedOne() : encodedTwo()
    }

    private func encodedOne() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(10 + 20 * present.nonzeroBitCount)
        appendHead(1, to: &bytes)
        for index in entries.indices where isKnown(index) {
            let entry = entries[index]
            bytes.append(UInt64(bitPattern: entry.version.rawValue), count: 8)
            bytes.append(UInt64(entry.mask.rawValue), count: 4)
            bytes.append(entry.digest, count: 8)
        }
        return bytes
    }

    private func encodedTwo() -> [UInt8] {
        // Blank ones have the smallest version.
        var common = Self.blank.version
        for index in entries.indices { common = max(common, entries[index].version) }
        var own: UInt64 = 0
        for index in entries.indices where isKnown(index) && entries[index].version != common {
            own |= 1 << UInt64(index)
        }
        let length = Self.lengthOfTwo(present: present, own: own)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(length)
        appendHead(2, to: &bytes)
        bytes.append(own, count: 5)
        bytes.append(UInt64(bitPattern: common.rawValue), count: 8)
        // The rest is stored into what is there, at a fraction of what appending its bytes one by one costs.
        var start = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: length - start))
        var rest = bytes.mutableSpan
        if own != 0 {
            for index in entries.indices where own >> UInt64(index) & 1 != 0 {
                rest.store(UInt64(bitPattern: entries[index].version.rawValue), at: start)
                start += 8
            }
        }
        for index in entries.indices where isKnown(index) {
            rest.store(entries[index].mask.rawValue, at: start)
            rest.store(entries[index].digest, at: start + 4)
            start += 12
        }
        return bytes
    }

    private func appendHead(_ format: UInt8, to bytes: inout [UInt8]) {
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
        present = bytes.word(5, 5)
        guard present >> UInt64(Self.span) == 0 else { return nil }
        switch bytes[0] {
        case 1:
            guard bytes.count == 10 + 20 * present.nonzeroBitCount else { return nil }
            readOne(bytes)
        case 2:
            guard bytes.count >= 23 else { return nil }
            let own = bytes.word(10, 5)
            guard own & ~present == 0, bytes.count == Self.lengthOfTwo(present: present, own: own) else { return nil }
            readTwo(bytes, own)
        default: return nil
        }
    }

    private mutating func readOne(_ bytes: Span<UInt8>) {
        entries = Array(repeating: Self.blank, count: Self.span)
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

    private mutating func readTwo(_ bytes: Span<UInt8>, _ own: UInt64) {
        let common = Version(rawValue: Int64(bitPattern: bytes.word64(15)))
        var read = Array(repeating: Self.blank, count: Self.span)
        var places = read.mutableSpan
        var version = 23
        var start = 23 + 8 * own.nonzeroBitCount
        var rest = present
        while rest != 0 {
            let index = rest.trailingZeroBitCount
            rest &= rest - 1
            var entry = Entry(
                version: common,
                mask: MetricSet(rawValue: bytes.word32(start)),
                digest: bytes.word64(start + 4)
            )
            start += 12
            if own >> UInt64(index) & 1 != 0 {
                entry.version = Version(rawValue: Int64(bitPattern: bytes.word64(version)))
                version += 8
            }
            places[index] = entry
        }
        entries = read
    }
}

extension Span<UInt8> {
    /// So many bytes from there on as one number, the highest first.
    fileprivate func word(_ start: Int, _ count: Int) -> UInt64 {
        var word: UInt64 = 0
        for index in start..<(start + count) { word = word << 8 | UInt64(self[index]) }
        return word
    }

    /// As `word` for eight bytes; written out it is one load.
    fileprivate func word64(_ start: Int) -> UInt64 {
        UInt64(word32(start)) << 32 | UInt64(word32(start + 4))
    }

    fileprivate func word32(_ start: Int) -> UInt32 {
        let four = extracting(start..<start + 4)
        return UInt32(four[0]) << 24 | UInt32(four[1]) << 16 | UInt32(four[2]) << 8 | UInt32(four[3])
    }
}

extension MutableSpan<UInt8> {
    /// The highest byte first.
    fileprivate mutating func store(_ word: UInt64, at start: Int) {
        for index in 0..<8 { self[start + index] = UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * index)) }
    }

    fileprivate mutating func store(_ word: UInt32, at start: Int) {
        for index in 0..<4 { self[start + index] = UInt8(truncatingIfNeeded: word >> UInt32(24 - 8 * index)) }
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
        values.forEach { _, tenths in mix.add(UInt64(bitPattern: Int64(tenths))) }
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
    ///   - says: the entry of the reading, if it was made already: to do that is what costs.
    ///   - entry: the connection's entry for this day; nil where there is none.
    ///   - keepsEntry: false for a day that the window does not reach: its row carries everything.
    /// - Returns: what it did by metric, and whether the row has to be written.
    public mutating func apply(
        _ reading: Reading,
        says: Window.Entry? = nil,
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
        entry = all && keepsEntry ? says ?? Window.Entry(of: reading) : nil
        if outcome.changed.isEmpty && all && keepsEntry && covered {
            // Only versions grew, and the new entry holds them all.
            self = stored
            return (outcome, false)
        }
        return (outcome, true)
    }
}
