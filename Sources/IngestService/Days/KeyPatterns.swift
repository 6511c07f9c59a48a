/// The keys that one kind of object has, each as it is written, quotes and colon included; and which one comes after
/// which, since a sender's objects have their keys in one order. Belongs to one thread.
struct KeyPatterns: ~Copyable {
    /// How many bytes must be readable where a key is looked for, whatever stands there.
    static let reach = 32

    private struct Pattern {
        /// The key's bytes, zeros behind them.
        var words = InlineArray<4, UInt64>(repeating: 0)
        /// Ones where `words` has bytes of the key.
        var masks = InlineArray<4, UInt64>(repeating: 0)
        var length = 0

        @inline(__always)
        func matches(_ place: UnsafeRawPointer) -> Bool {
            var difference: UInt64 = 0
            for index in 0..<4 {
                let word = place.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self)
                difference |= (UInt64(littleEndian: word) ^ words[index]) & masks[index]
            }
            return difference == 0
        }
    }

    /// How many keys there are; also stands for "no key before this one".
    let count: Int
    // Plain memory, since every key of every day comes by. Both are set once, and indexes are those of keys, which
    // only `find` makes; every successor is one too.
    private let patterns: UnsafeMutablePointer<Pattern>
    private let successors: UnsafeMutablePointer<UInt8>

    /// Names of at most 29 ASCII bytes that need no escaping, fewer than 255 of them; a longer one is never found.
    init(_ names: [StaticString]) {
        count = names.count
        patterns = .allocate(capacity: names.count)
        successors = .allocate(capacity: names.count + 1)
        successors.initialize(repeating: 0, count: names.count + 1)
        for (index, name) in names.enumerated() {
            var pattern = Pattern()
            let text = [UInt8]("\"\(name)\":".utf8)
            pattern.length = text.count
            for (place, byte) in text.prefix(Self.reach).enumerated() {
                pattern.words[place / 8] |= UInt64(byte) << UInt64(place % 8 * 8)
                pattern.masks[place / 8] |= 0xff << UInt64(place % 8 * 8)
            }
            // No byte is both of these.
            if text.count > Self.reach { pattern.masks[0] = .max; pattern.words[0] = 0 }
            (patterns + index).initialize(to: pattern)
        }
    }

    deinit {
        patterns.deallocate()
        successors.deallocate()
    }

    /// The number of the key at a place if it is the one that comes after `previous`, the key before it in its object,
    /// or `count`; else -1.
    @inline(__always)
    func expected(_ place: UnsafeRawPointer, after previous: Int) -> Int {
        let expected = Int(successors[previous])
        return patterns[expected].matches(place) ? expected : -1
    }

    /// The number of the key at a place, or -1.
    @inline(__always)
    func find(_ place: UnsafeRawPointer, after previous: Int) -> Int {
        let expected = expected(place, after: previous)
        return expected >= 0 ? expected : search(place, previous)
    }

    /// How many bytes a key takes with its quotes and colon.
    @inline(__always)
    func length(_ key: Int) -> Int { patterns[key].length }

    @inline(never)
    private func search(_ place: UnsafeRawPointer, _ previous: Int) -> Int {
        for key in 0..<count where patterns[key].matches(place) {
            successors[previous] = UInt8(truncatingIfNeeded: key)
            return key
        }
        return -1
    }
}
