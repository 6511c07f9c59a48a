import Domain
import Synchronization

/// A token bucket for each user, in memory that is set aside once. Any thread may ask; there is no lock.
///
/// A bucket is one word: the time at which it will be full again (the "theoretical arrival time" of the generic cell
/// rate algorithm), and a part of the user's hash. Sixteen words, two cache lines, are a set, and a user's hash names
/// theirs. A bucket whose time has passed is full, as is that of a user who never came: its word is free. So what is
/// remembered is never more than the users of the last moments, and nobody has to clean up.
///
/// Where a set holds no free word, a new user is let pass uncounted: too many users are no reason to refuse one. Two
/// users of one set that agree in 21 more bits share a bucket: one pair in some two million.
///
/// `@unchecked Sendable`: the pointer never changes, and what it points to are atomics.
final class RateLimiter: @unchecked Sendable {
    /// Where a request stands.
    enum Verdict: Hashable {
        case passes
        /// Seconds until the next request would pass, rounded up.
        case wait(seconds: Int)
    }

    private static let ways = 16
    private static let timeBits: UInt64 = 42
    private static let timeMask: UInt64 = 1 << timeBits - 1
    /// A word's time counts these, of 16.384 µs. 42 bits last two years; then words that seem to lie far ahead are
    /// free, like those of the past.
    private static let tickShift: UInt64 = 14
    /// Threads read the clock one after the other: by so many ticks, 17 s, a word may be further ahead than it could.
    private static let slack: UInt64 = 1 << 20

    private let words: UnsafeMutablePointer<Atomic<UInt64>>
    private let setMask: UInt64
    private let seed: UInt64
    /// Ticks that one request costs, and that a whole bucket holds.
    private let cost: UInt64
    private let depth: UInt64
    private let startedAt: Int64

    /// `perMinute` is how many requests a user may make in the long run (1 to 60,000), `burst` how many at once after a
    /// rest (1 to a million), `users` how many are remembered at once. `now` is the monotonic clock, in nanoseconds.
    init(perMinute: Int, burst: Int, users: Int = 1 << 17, now: Int64, seed: UInt64 = .random(in: 0 ... .max)) {
        let rate = Double(min(max(perMinute, 1), 60_000))
        cost = max(1, UInt64(60e9 / rate) >> Self.tickShift)
        depth = cost * UInt64(min(max(burst, 1), 1_000_000))
        var sets = 1
        while sets * Self.ways < min(max(users, 1), 1 << 24) { sets *= 2 }
        setMask = UInt64(sets - 1)
        self.seed = seed
        startedAt = now
        let count = sets * Self.ways
        words = .allocate(capacity: count)
        for index in 0..<count { (words + index).initialize(to: Atomic(0)) }
    }

    deinit {
        words.deinitialize(count: (Int(setMask) + 1) * Self.ways)
        words.deallocate()
    }

    /// Takes one request out of the user's bucket, if it holds one. `kind` keeps several buckets of one user apart.
    func take(_ user: UserID, kind: UInt64 = 0, now: Int64) -> Verdict {
        let hash = hash(user, kind)
        let set = words + Int(hash & setMask) * Self.ways
        // Never zero, so that a word that was never used belongs to nobody.
        let name = (hash >> Self.timeBits | 1) << Self.timeBits
        // Counted from 1: a word's time of zero is long ago.
        let present = (UInt64(clamping: now - startedAt) >> Self.tickShift + 1) & Self.timeMask
        // Another thread may take the word that was found: then the set is looked at again.
        for _ in 0..<8 {
            var chosen: (index: Int, word: UInt64)?
            var isKnown = false
            for index in 0..<Self.ways {
                let word = set[index].load(ordering: .relaxed)
                if word & ~Self.timeMask == name {
                    chosen = (index, word)
                    isKnown = true
                    break
                }
                if chosen == nil, isFree(word, present) { chosen = (index, word) }
            }
            guard let chosen else { return .passes }
            let fullAt = isKnown && !isFree(chosen.word, present) ? chosen.word & Self.timeMask : present
            let next = fullAt + cost
            guard next - present <= depth else { return .wait(seconds: seconds(next - present - depth)) }
            let new = name | min(next, Self.timeMask)
            let done = set[chosen.index].compareExchange(expected: chosen.word, desired: new, ordering: .relaxed)
            if done.exchanged { return .passes }
        }
        return .passes
    }

    /// How many buckets are not full, for tests.
    func bucketsInUse(now: Int64) -> Int {
        let present = UInt64(clamping: now - startedAt) >> Self.tickShift + 1
        let count = (Int(setMask) + 1) * Self.ways
        return (0..<count).count(where: { !isFree(words[$0].load(ordering: .relaxed), present) })
    }

    /// The word's bucket is full: nothing is lost by forgetting it.
    private func isFree(_ word: UInt64, _ present: UInt64) -> Bool {
        let fullAt = word & Self.timeMask
        return fullAt <= present || fullAt - present > depth + Self.slack
    }

    private func seconds(_ ticks: UInt64) -> Int {
        let nanoseconds = ticks << Self.tickShift
        return max(1, Int(clamping: (nanoseconds + 999_999_999) / 1_000_000_000))
    }

    private func hash(_ user: UserID, _ kind: UInt64) -> UInt64 {
        func mix(_ word: UInt64) -> UInt64 {
            var state = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
            state = (state ^ (state >> 27)) &* 0x94d0_49bb_1331_11eb
            return state ^ (state >> 31)
        }
        return mix(mix(user.high ^ seed) &+ user.low ^ kind &* 0x9e37_79b9_7f4a_7c15)
    }
}
