public import Domain
public import JSON

/// Finds the metric that a JSON key names.
///
/// Keys come in the same order day after day, so that the one expected at a place is tried first; else an
/// open-addressed table over a key's first and last eight bytes.
public struct MetricKeys {
    /// A key's bytes as three numbers, which tell all keys of up to sixteen bytes apart.
    private struct Fingerprint: Equatable {
        var length: Int
        var first: UInt64
        var last: UInt64

        static let none = Fingerprint(length: -1, first: 0, last: 0)

        /// Eight readable bytes lie behind the key's start, whatever its length (`JSONText`).
        @inline(__always)
        init(_ key: JSONText) {
            length = key.count
            guard let start = UnsafeRawPointer(key.baseAddress) else {
                first = 0
                last = 0
                return
            }
            if length >= 8 {
                first = start.loadUnaligned(as: UInt64.self)
                last = start.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
            } else {
                let mask: UInt64 = (1 << UInt64(length * 8)) - 1
                first = UInt64(littleEndian: start.loadUnaligned(as: UInt64.self)) & mask
                last = first
            }
        }

        init(length: Int, first: UInt64, last: UInt64) {
            self.length = length
            self.first = first
            self.last = last
        }

        @inline(__always)
        var slot: Int {
            let mixed = (first ^ last &* 0x9e37_79b9_7f4a_7c15) &* 0xff51_afd7_ed55_8ccd
            return Int(truncatingIfNeeded: mixed >> 58)
        }
    }

    /// Places of an object that have a guess; later ones go to the table.
    public static let guessedPlaces = 20

    private var prints: [Fingerprint]
    private var names: [StaticString]
    /// Metric index by slot; 255 is empty.
    private var table: InlineArray<64, UInt8>
    /// Metric index by place in the object; 255 is unknown.
    private var guesses: InlineArray<20, UInt8>

    public init() {
        prints = []
        names = []
        table = InlineArray(repeating: 255)
        guesses = InlineArray(repeating: 255)
        for definition in MetricLedger.definitions {
            // Padded, since a key is read eight bytes at a time.
            var name = definition.name.description.utf8.map { $0 }
            let length = name.count
            name.append(contentsOf: repeatElement(0, count: 8))
            let print = name.withUnsafeBufferPointer { Fingerprint(JSONText(rebasing: $0[..<length])) }
            var slot = print.slot
            while table[slot] != 255 { slot = (slot + 1) & 63 }
            table[slot] = definition.metric.rawValue
            prints.append(print)
            names.append(definition.name)
        }
    }

    /// The metric of that name, or nil; the key's place in its object, from 0, is only a hint.
    @inline(__always)
    public mutating func metric(for key: JSONText, at place: Int) -> Metric? {
        let print = Fingerprint(key)
        if place < Self.guessedPlaces {
            let guess = Int(guesses[place])
            if guess < prints.count, matches(guess, print, key) { return Metric(rawValue: UInt8(guess)) }
        }
        return search(print, key, place)
    }

    @inline(never)
    private mutating func search(_ print: Fingerprint, _ key: JSONText, _ place: Int) -> Metric? {
        var slot = print.slot
        while table[slot] != 255 {
            let index = Int(table[slot])
            if matches(index, print, key) {
                if place < Self.guessedPlaces { guesses[place] = UInt8(index) }
                return Metric(rawValue: UInt8(index))
            }
            slot = (slot + 1) & 63
        }
        return nil
    }

    @inline(__always)
    private func matches(_ index: Int, _ print: Fingerprint, _ key: JSONText) -> Bool {
        prints[index] == print && (print.length <= 16 || key.equals(names[index]))
    }
}
