internal import Domain
internal import Storage

/// A connection while a batch works on it.
struct WorkingConnection {
    /// Room for the days of most records, so that the lists of them need not grow.
    private static let usualDays = 16

    let key: ConnectionKey
    private let stored: StoredConnection?
    var window: Window
    /// In microseconds since 1970; they only grow.
    private var lastPushAt: Int64
    private var lastDataAt: Int64
    private var isWindowChanged = false
    /// The window lost entries of days below the floor when it was read.
    private var isTrimmed = false
    /// Days of which a reading was put off until their rows are read, in order.
    private(set) var deferred: [CalendarDay] = []
    /// Days that a reading replaces without their rows being read, in order, and which replacement each is.
    private(set) var replaced: [(day: CalendarDay, number: Int)] = []
    /// The user's only one; nil before anybody asked.
    var isAlone: Bool?

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
        isTrimmed = window.discard(below: floor)
        self.window = window
    }

    var isStored: Bool { stored != nil }
    /// A value has changed.
    var broughtData: Bool { lastDataAt != stored?.lastDataAt ?? 0 }

    func isDeferred(_ day: CalendarDay) -> Bool {
        let place = place(of: day)
        return place < deferred.count && deferred[place] == day
    }

    mutating func noteDeferred(_ day: CalendarDay) {
        let place = place(of: day)
        if place == deferred.count {
            if deferred.isEmpty { deferred.reserveCapacity(Self.usualDays) }
            deferred.append(day)
        } else if deferred[place] != day {
            deferred.insert(day, at: place)
        }
    }

    /// The place of the first day that is not before this one; most often the end, as a record's days come in order.
    private func place(of day: CalendarDay) -> Int {
        guard let last = deferred.last, day <= last else { return deferred.count }
        var low = 0
        var high = deferred.count
        while low < high {
            let middle = (low + high) / 2
            if deferred[middle] < day { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Which replacement the day has.
    func replacement(of day: CalendarDay) -> Int? {
        guard let last = replaced.last, day <= last.day else { return nil }
        let place = replacedPlace(of: day)
        return replaced[place].day == day ? replaced[place].number : nil
    }

    mutating func noteReplaced(_ day: CalendarDay, _ number: Int) {
        let place = replacedPlace(of: day)
        guard place == replaced.count else { return replaced.insert((day, number), at: place) }
        if replaced.isEmpty { replaced.reserveCapacity(Self.usualDays) }
        replaced.append((day, number))
    }

    mutating func forgetReplaced(_ day: CalendarDay) {
        replaced.removeAll { $0.day == day }
    }

    private func replacedPlace(of day: CalendarDay) -> Int {
        guard let last = replaced.last, day <= last.day else { return replaced.count }
        return replaced.firstIndex { day <= $0.day } ?? replaced.count
    }

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

    /// The row to write, with its window in the database's format; nil where it is as it was, or where nothing was
    /// accepted that would make one.
    func write(format: Int16) -> BatchWrites.ConnectionWrite? {
        let moved = lastPushAt != stored?.lastPushAt ?? 0 || lastDataAt != stored?.lastDataAt ?? 0
        guard moved || isWindowChanged else { return nil }
        // The stored bytes serve again where the window stayed.
        let bytes =
            isWindowChanged || isTrimmed ? window.encoded(format: UInt8(clamping: format)) : stored?.window ?? []
        let state = StoredConnection(
            lastPushAt: lastPushAt,
            lastDataAt: lastDataAt,
            window: bytes,
            place: stored?.place
        )
        return .init(key: key, state: state)
    }
}
