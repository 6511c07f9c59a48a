public import Domain
public import Postgres

/// Drops months that are older than what is kept. The floor is raised and committed first: from then on nothing below
/// it is written, so nothing is lost to the drop that was accepted after it.
public struct Retention {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Raises the floor to the first day of the oldest month that has a day to keep, and drops the months below it.
    /// Safe to run in many processes: one works, the others find nothing to do. The floor only moves up.
    ///
    /// - Parameters:
    ///   - days: how many are kept.
    ///   - today: the server's date.
    /// - Returns: the floor as it stands now, and the partitions that were dropped.
    /// - Throws: `PostgresError`; what was dropped until then stays dropped.
    public func enforce(days: Int, today: CalendarDay) throws -> (floor: CalendarDay, dropped: [String]) {
        var parameters = PostgresParameters()
        parameters.append(date: today.advanced(by: -days).firstOfMonth.daysSinceEpoch)
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
            if partition.isMine { try drop(partition) } else { try haveDropped(partition) }
            dropped.append(partition.name)
        }
        return (floor, dropped)
    }

    private static let lock = "hashtextextended('daybook.retention', 0)"

    private struct Partition {
        let parent: String
        let name: String
        let month: CalendarDay
        /// A detach that was interrupted; it has to be finished before anything else.
        let isDetaching: Bool
        /// Only the owner may detach and drop.
        let isMine: Bool
    }

    private func partitions() throws -> [Partition] {
        let result = try connection.executeUnprepared(
            """
            SELECT parent.relname::text, child.relname::text, inherits.inhdetachpending,
                pg_has_role(parent.relowner, 'USAGE') AND pg_has_role(child.relowner, 'USAGE')
            FROM pg_inherits AS inherits
            JOIN pg_class AS parent ON parent.oid = inherits.inhparent
            JOIN pg_class AS child ON child.oid = inherits.inhrelid
            WHERE parent.oid IN ('source_days'::regclass, 'canonical_days'::regclass)
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
                    isDetaching: try result.bool(row, 2),
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
        let how = partition.isDetaching ? "FINALIZE" : "CONCURRENTLY"
        try connection.executeUnprepared(
            "ALTER TABLE \(partition.parent) DETACH PARTITION \(partition.name) \(how)"
        )
        try connection.executeUnprepared("DROP TABLE \(partition.name)")
    }

    /// By a function with the owner's rights, which waits at most a second for running batches.
    private func haveDropped(_ partition: Partition) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(text: partition.parent)
        parameters.append(date: partition.month.daysSinceEpoch)
        try connection.executeUnprepared("SELECT drop_month($1::text, $2::date)", parameters)
    }
}
