public import Domain
public import Postgres

/// Drops months that are older than what is kept. The floor is raised and committed first: from then on nothing below
/// it is written, so nothing is lost to the drop that was accepted after it.
public struct Retention {
    public enum Failure: Error, Hashable, CustomStringConvertible {
        case clocksApart(here: CalendarDay, database: CalendarDay)

        public var description: String {
            switch self {
            case .clocksApart(let here, let database):
                "it is \(here) on this machine and \(database) in PostgreSQL, so no month is dropped: "
                    + "put right the clock that is wrong"
            }
        }
    }

    private let connection: PostgresConnection
    private let databaseDate: CalendarDay?

    /// - Parameters:
    ///   - connection: of the tables' owner, or of a worker's role.
    ///   - databaseDate: what is taken for PostgreSQL's date; nil: it is asked.
    public init(_ connection: PostgresConnection, databaseDate: CalendarDay? = nil) {
        self.connection = connection
        self.databaseDate = databaseDate
    }

    /// Raises the floor to the first day of the oldest month that has a day to keep, and drops the months below it.
    /// Safe to run in many processes: one works, the others find nothing to do. The floor only moves up, and so by the
    /// earlier of two clocks: what it was raised over by mistake is gone.
    ///
    /// - Parameters:
    ///   - days: how many are kept.
    ///   - today: this machine's date.
    /// - Returns: the floor as it stands now, and the partitions that were dropped.
    /// - Throws: `Failure`, and nothing was done; or `PostgresError`, and what was dropped until then stays dropped.
    public func enforce(days: Int, today: CalendarDay) throws -> (floor: CalendarDay, dropped: [String]) {
        let theirs = try databaseDate ?? askDate()
        guard abs(today.days(since: theirs)) <= 1 else { throw Failure.clocksApart(here: today, database: theirs) }
        var parameters = PostgresParameters()
        parameters.append(date: min(today, theirs).advanced(by: -days).firstOfMonth.daysSinceEpoch)
        try connection.executeUnprepared(
            "UPDATE control SET retention_floor = $1::date WHERE retention_floor < $1::date",
            parameters
        )
        let control = try connection.executeUnprepared("SELECT retention_floor FROM control")
        guard control.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        let floor = CalendarDay(daysSinceEpoch: try control.date(0, 0))
        guard try connection.executeUnprepared("SELECT pg_try_advisory_lock(\(Self.lock))").bool(0, 0) else {
            return (floor, [])
        }
        defer { _ = try? connection.executeUnprepared("SELECT pg_advisory_unlock(\(Self.lock))") }
        var dropped: [String] = []
        for partition in try partitions() where partition.month < floor {
            if partition.isMine {
                try drop(partition)
            } else if try !haveDropped(partition) {
                continue
            }
            dropped.append(partition.name)
        }
        return (floor, dropped)
    }

    private func askDate() throws(PostgresError) -> CalendarDay {
        let now = try connection.executeUnprepared("SELECT (now() AT TIME ZONE 'UTC')::date")
        return CalendarDay(daysSinceEpoch: try now.date(0, 0))
    }

    private static let lock = "hashtextextended('daybook.retention', 0)"

    private struct Partition {
        let parent: String
        let name: String
        let month: CalendarDay
        /// Nil for a table that is no partition any more: whoever detached it ended before the drop.
        let attached: Attachment?
        /// Only the owner may detach and drop.
        let isMine: Bool
    }

    private enum Attachment {
        case whole
        /// A detach that was interrupted; it has to be finished before anything else.
        case detaching
    }

    private func partitions() throws -> [Partition] {
        let result = try connection.executeUnprepared(
            """
            SELECT parent.relname::text, child.relname::text, inherits.inhdetachpending,
                pg_has_role(parent.relowner, 'USAGE') AND pg_has_role(child.relowner, 'USAGE')
            FROM pg_class AS parent
            JOIN pg_class AS child ON child.relnamespace = parent.relnamespace AND child.relkind = 'r'
                AND child.relname ~ ('^' || parent.relname || '_y[0-9]{4}m[0-9]{2}$')
            LEFT JOIN pg_inherits AS inherits ON inherits.inhrelid = child.oid
            WHERE parent.oid IN ('source_days'::regclass, 'canonical_days'::regclass)
                AND (inherits.inhparent IS NULL OR inherits.inhparent = parent.oid)
            ORDER BY child.relname
            """
        )
        var list: [Partition] = []
        for row in 0..<result.rowCount {
            let name = try result.text(row, 1)
            guard let month = Self.month(of: name) else { continue }
            list.append(
                Partition(
                    parent: try result.text(row, 0),
                    name: name,
                    month: month,
                    attached: try result.isNull(row, 2) ? nil : result.bool(row, 2) ? .detaching : .whole,
                    isMine: try result.bool(row, 3)
                )
            )
        }
        return list
    }

    /// `…_y2026m09`, as `ensure_month` names them; others are not ours to drop.
    private static func month(of name: String) -> CalendarDay? {
        let suffix = name.utf8.suffix(8)
        let digits = Array(suffix)
        guard digits.count == 8, digits[0] == UInt8(ascii: "y"), digits[5] == UInt8(ascii: "m") else { return nil }
        let year = Int(String(decoding: digits[1..<5], as: UTF8.self))
        let month = Int(String(decoding: digits[6..<8], as: UTF8.self))
        guard let year, let month else { return nil }
        return CalendarDay(year: year, month: month, day: 1)
    }

    /// Detached without a lock that batches would wait for; what is detached is dropped.
    private func drop(_ partition: Partition) throws(PostgresError) {
        if let attached = partition.attached {
            let how = attached == .detaching ? "FINALIZE" : "CONCURRENTLY"
            try connection.executeUnprepared(
                "ALTER TABLE \(partition.parent) DETACH PARTITION \(partition.name) \(how)"
            )
        }
        try connection.executeUnprepared("DROP TABLE \(partition.name)")
    }

    /// By a function with the owner's rights, which waits at most a second for running batches. False where it found
    /// nothing to drop.
    private func haveDropped(_ partition: Partition) throws(PostgresError) -> Bool {
        var parameters = PostgresParameters()
        parameters.append(text: partition.parent)
        parameters.append(date: partition.month.daysSinceEpoch)
        return try connection.executeUnprepared("SELECT drop_month($1::text, $2::date)", parameters).bool(0, 0)
    }
}
