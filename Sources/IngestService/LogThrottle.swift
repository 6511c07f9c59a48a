import Observability
import Synchronization

/// Lets the same trouble into the log once in ten seconds, with how often it came meanwhile. Any thread may ask.
final class LogThrottle: Sendable {
    static let intervalMicroseconds: Int64 = 10_000_000
    /// So many troubles are kept apart; beyond, all are forgotten.
    private static let mostNames = 100

    private struct Entry {
        var writtenAt: Int64
        var withheld = 0
    }

    private let now: @Sendable () -> Int64
    private let entries = Mutex<[String: Entry]>([:])

    /// `now` gives microseconds.
    init(now: @escaping @Sendable () -> Int64 = { Log.systemMicroseconds() }) {
        self.now = now
    }

    /// Nil: not to be written now. Else how often the trouble came since it was written last, this time included.
    func note(_ name: String) -> Int? {
        let now = now()
        return entries.withLock { entries in
            if var entry = entries[name], now >= entry.writtenAt, now - entry.writtenAt < Self.intervalMicroseconds {
                entry.withheld += 1
                entries[name] = entry
                return nil
            }
            if entries.count > Self.mostNames { entries.removeAll() }
            let count = (entries[name]?.withheld ?? 0) + 1
            entries[name] = Entry(writtenAt: now)
            return count
        }
    }
}
