/// What one record says of one day: the values a source gave, and how new they are.
public struct Reading: Hashable, Sendable {
    public let day: CalendarDay
    public let values: MetricValues
    public let version: Version
    /// The values were read after the day had ended for the phone (`day` before the record's local date).
    public let closed: Bool

    public init(day: CalendarDay, values: MetricValues, version: Version, closed: Bool) {
        self.day = day
        self.values = values
        self.version = version
        self.closed = closed
    }
}

/// Whose figures a row holds: a source, and the device in it where the platform did not merge its devices.
///
/// Origins are compared as bytes, as the database does: to Swift, a letter with an accent equals the same letter with a
/// combining accent, and then the first of the two to come would name the row of both.
public struct Provenance: Hashable, Comparable, Sendable {
    public let source: Source
    /// Empty: what the platform merged itself.
    public let origin: String

    public init(source: Source, origin: String = "") {
        self.source = source
        self.origin = origin
    }

    public static func == (left: Provenance, right: Provenance) -> Bool {
        guard left.source == right.source, left.origin.isEmpty == right.origin.isEmpty else { return false }
        return left.origin.isEmpty || left.origin.utf8.elementsEqual(right.origin.utf8)
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(source)
        for byte in origin.utf8 { hasher.combine(byte) }
    }

    public static func < (left: Provenance, right: Provenance) -> Bool {
        guard left.source == right.source else { return left.source.rawValue < right.source.rawValue }
        return left.origin.utf8.lexicographicallyPrecedes(right.origin.utf8)
    }
}
