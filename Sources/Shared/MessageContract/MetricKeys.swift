public import Domain
public import JSON

/// Finds the metric that a JSON key names. One belongs to one thread: it remembers what it saw.
///
/// Keys come in the same order day after day, so that the one expected at a place is tried first; else an
/// open-addressed table over a key's first and last eight bytes.
public final class MetricKeys {
    /// A key's bytes as four numbers, which tell all keys of up to 24 bytes apart.
    @usableFromInline
    struct Fingerprint: Equatable {
        @usableFromInline var length: Int
        @usableFromInline var first: UInt64
        @usableFromInline var middle: UInt64
        @usableFromInline var last: UInt64

        /// Eight readable bytes lie behind the key's start, whatever its length (`JSONText`).
        @inlinable
        @inline(__always)
        init(_ key: JSONText) {
            length = key.count
            guard let start = UnsafeRawPointer(key.baseAddress) else {
                (first, middle, last) = (0, 0, 0)
                return
            }
            first = start.loadUnaligned(as: UInt64.self)
            if length > 16 {
                middle = start.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
                last = start.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
            } else if length >= 8 {
                middle = 0
                last = start.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
            } else {
                let mask: UInt64 = (1 << UInt64(length * 8)) &- 1
                first = UInt64(littleEndian: first) & mask
                middle = 0
                last = first
            }
        }

        @inlinable
        @inline(__always)
        static func == (left: Fingerprint, right: Fingerprint) -> Bool {
            left.length == right.length && left.first == right.first && left.last == right.last
                && left.middle == right.middle
        }

        var slot: Int {
            let mixed = (first ^ last &* 0x9e37_79b9_7f4a_7c15) &* 0xff51_afd7_ed55_8ccd
            return Int(truncatingIfNeeded: mixed >> 58)
        }
    }

    /// Places of an object that have a guess; later ones go to the table.
    public static let guessedPlaces = 20
    /// A guess needs no comparison beyond the fingerprint.
    private static let longestGuessed = 24
    private static let none: UInt8 = 255

    // Plain memory, since each key of each day comes by: no checks of exclusive access, of bounds or of sharing.
    // Indexes are those of metrics, of slots (six bits) and of guessed places.
    @usableFromInline let prints: UnsafeMutablePointer<Fingerprint>
    /// Metric index by place in the object; 255 is unknown.
    @usableFromInline let guesses: UnsafeMutablePointer<UInt8>
    /// Metric index by slot; 255 is empty.
    private let table: UnsafeMutablePointer<UInt8>

    public init() {
        prints = .allocate(capacity: Metric.count)
        guesses = .allocate(capacity: Self.guessedPlaces)
        table = .allocate(capacity: 64)
        guesses.initialize(repeating: Self.none, count: Self.guessedPlaces)
        table.initialize(repeating: Self.none, count: 64)
        for definition in MetricLedger.definitions {
            // Padded, since a key is read eight bytes at a time.
            var name = definition.name.description.utf8.map { $0 }
            let length = name.count
            name.append(contentsOf: repeatElement(0, count: 8))
            let print = name.withUnsafeBufferPointer { Fingerprint(JSONText(rebasing: $0[..<length])) }
            var slot = print.slot
            while table[slot] != Self.none { slot = (slot + 1) & 63 }
            table[slot] = definition.metric.rawValue
            (prints + definition.metric.index).initialize(to: print)
        }
    }

    deinit {
        prints.deallocate()
        guesses.deallocate()
        table.deallocate()
    }

    /// The metric of that name, or nil; the key's place in its object, from 0, is only a hint.
    @inlinable
    @inline(__always)
    public func metric(for key: JSONText, at place: Int) -> Metric? {
        let print = Fingerprint(key)
        if place < 20 {
            let guess = guesses[place]
            if Int(guess) < Metric.count, prints[Int(guess)] == print { return Metric(rawValue: guess) }
        }
        return search(print, key, place)
    }

    /// The metric whose key stands at a place, and how many bytes the key takes with quotes and colon; nil where there is
    /// none, or one that is written with escapes. So many bytes as the longest key has, and eight more, are readable there.
    @inline(__always)
    func metric(quoted place: UnsafePointer<UInt8>, at number: Int) -> (metric: Metric, length: Int)? {
        let (quote, colon) = (UInt8(ascii: "\""), UInt8(ascii: ":"))
        guard place[0] == quote else { return nil }
        if number < Self.guessedPlaces, Int(guesses[number]) < Metric.count {
            let print = prints[Int(guesses[number])]
            if place[print.length + 1] == quote, place[print.length + 2] == colon,
                Fingerprint(JSONText(start: place + 1, count: print.length)) == print
            {
                return Metric(rawValue: guesses[number]).map { ($0, print.length + 3) }
            }
        }
        var length = 0
        while place[length + 1] != quote {
            length += 1
            guard length <= Self.longestGuessed else { return nil }
        }
        let key = JSONText(start: place + 1, count: length)
        guard length > 0, place[length + 2] == colon, let metric = search(Fingerprint(key), key, number) else {
            return nil
        }
        return (metric, length + 3)
    }

    @usableFromInline
    @inline(never)
    func search(_ print: Fingerprint, _ key: JSONText, _ place: Int) -> Metric? {
        var slot = print.slot
        while table[slot] != Self.none {
            let index = Int(table[slot])
            let isShort = key.count <= Self.longestGuessed
            if prints[index] == print, isShort || key.equals(MetricLedger.definitions[index].name) {
                if isShort, place < Self.guessedPlaces { guesses[place] = UInt8(index) }
                return Metric(rawValue: UInt8(index))
            }
            slot = (slot + 1) & 63
        }
        return nil
    }
}
