/// Stops a partition that yields too many dead letters, so that a flood of bad records (a bad deploy of a writer)
/// stops the worker instead of draining the topic into the dead letters (D9).
///
/// A pure state: it is a part of the partition's row and moves in the batch's transaction, so that neither a retry
/// nor a restart counts twice or forgets.
public struct Brake: Hashable, Sendable {
    public struct Limits: Hashable, Sendable {
        /// The share is taken over the last `window` records, and counts only from that many on.
        public let window: Int
        public let sharePercent: Int
        /// So many dead letters in a row stop the partition whatever the share.
        public let run: Int

        public init(window: Int = 1000, sharePercent: Int = 20, run: Int = 100) {
            self.window = max(1, window)
            self.sharePercent = sharePercent
            self.run = max(1, run)
        }
    }

    /// One bit a record, newest in the lowest bit of the first word.
    private var recent: [UInt64]
    private var seen: Int
    private var dead: Int
    private var run: Int
    public let limits: Limits

    public init(limits: Limits) {
        self.limits = limits
        recent = Array(repeating: 0, count: (limits.window + 63) / 64)
        seen = 0
        dead = 0
        run = 0
    }

    public var isOn: Bool {
        run >= limits.run || (seen >= limits.window && dead * 100 > limits.window * limits.sharePercent)
    }

    /// Counts one record (heartbeats are not counted). Returns whether the brake is on now.
    public mutating func count(isDeadLetter: Bool) -> Bool {
        if isDeadLetter || dead > 0 {
            shift(in: isDeadLetter)
        }
        seen = min(seen + 1, limits.window)
        run = isDeadLetter ? run + 1 : 0
        return isOn
    }

    private mutating func shift(in isDeadLetter: Bool) {
        let last = limits.window - 1
        let leaving = recent[last / 64] >> UInt64(last % 64) & 1
        var carry: UInt64 = isDeadLetter ? 1 : 0
        for index in recent.indices {
            let out = recent[index] >> 63
            recent[index] = recent[index] << 1 | carry
            carry = out
        }
        let spare = recent.count * 64 - limits.window
        if spare > 0 { recent[recent.count - 1] &= UInt64.max >> UInt64(spare) }
        dead += (isDeadLetter ? 1 : 0) - Int(leaving)
    }
}

extension Brake {
    /// For the partition's row: seen and run, and the bits if any is set, big-endian. Nil before the first record.
    public var encoded: [UInt8]? {
        guard seen > 0 else { return nil }
        var bytes: [UInt8] = []
        func append(_ word: UInt64) {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
            }
        }
        append(UInt64(seen))
        append(UInt64(run))
        if dead > 0 { for word in recent { append(word) } }
        return bytes
    }

    /// Reads what `encoded` wrote; bytes written under another window size start anew, which errs on the side of
    /// running.
    public init(encoded bytes: [UInt8]?, limits: Limits) {
        self.init(limits: limits)
        guard let bytes, bytes.count == 16 || bytes.count == 8 * (2 + recent.count) else { return }
        func word(_ index: Int) -> UInt64 {
            var word: UInt64 = 0
            for byte in bytes[(index * 8)..<(index * 8 + 8)] { word = word << 8 | UInt64(byte) }
            return word
        }
        seen = min(Int(clamping: word(0)), limits.window)
        run = min(Int(clamping: word(1)), limits.run)
        guard bytes.count > 16 else { return }
        for index in recent.indices { recent[index] = word(index + 2) }
        let spare = recent.count * 64 - limits.window
        if spare > 0 { recent[recent.count - 1] &= UInt64.max >> UInt64(spare) }
        dead = recent.reduce(0) { $0 + $1.nonzeroBitCount }
    }
}
