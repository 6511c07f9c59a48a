internal import Domain
internal import Storage

/// A connection while a batch works on it.
struct WorkingConnection {
    let key: ConnectionKey
    private let stored: StoredConnection?
    var window: Window
    /// In microseconds since 1970; they only grow.
    private var lastPushAt: Int64
    private var lastDataAt: Int64
    private var isWindowChanged = false
    /// Days of which a reading was put off until their rows are read.
    var deferred: Set<CalendarDay> = []

    /// Throws where the window is in a format that this build does not know.
    init(_ key: ConnectionKey, _ stored: StoredConnection?, floor: CalendarDay) throws(StorageError) {
        self.key = key
        self.stored = stored
        lastPushAt = stored?.lastPushAt ?? 0
        lastDataAt = stored?.lastDataAt ?? 0
        guard let stored, !stored.window.isEmpty else {
            window = Window()
            return
        }
        guard var window = Window(encoded: stored.window.span) else { throw .unreadableWindow }
        // The rows of days below the floor are gone: nothing is left to fold into.
        window.discard(below: floor)
        self.window = window
    }

    var isStored: Bool { stored != nil }
    /// A value has changed.
    var broughtData: Bool { lastDataAt != stored?.lastDataAt ?? 0 }

    mutating func notePush(_ receivedAt: Instant) {
        lastPushAt = max(lastPushAt, receivedAt.microseconds)
    }

    mutating func noteData(_ receivedAt: Instant) {
        lastDataAt = max(lastDataAt, receivedAt.microseconds)
    }

    mutating func set(_ entry: Window.Entry?, for day: CalendarDay) {
        guard window[day] != entry else { return }
        window.set(entry, for: day)
        isWindowChanged = true
    }

    mutating func clearWindow() {
        guard !window.isEmpty else { return }
        window = Window()
        isWindowChanged = true
    }

    /// When this connection makes its user due at the earliest, if it has just come to be, or come back after a
    /// disconnect; nil for a connection that goes on, and for sources that can't be woken.
    func dueAt(disconnectedAt: Int64) -> Int64? {
        guard key.provenance.source.kind == .onDevice, lastPushAt > disconnectedAt else { return nil }
        let wasConnected = (stored?.lastPushAt ?? 0) > disconnectedAt
        guard !wasConnected else { return nil }
        return WakeRule.due(afterPush: Instant(microseconds: lastPushAt)).microseconds
    }

    /// Nil where the row is as it was, or where nothing was accepted that would make one.
    var write: BatchWrites.ConnectionWrite? {
        let moved = lastPushAt != stored?.lastPushAt ?? 0 || lastDataAt != stored?.lastDataAt ?? 0
        guard moved || isWindowChanged else { return nil }
        let state = StoredConnection(lastPushAt: lastPushAt, lastDataAt: lastDataAt, window: window.encoded)
        return .init(key: key, state: state)
    }
}
