internal import Domain
internal import Postgres

/// Turns rows of the day tables into values, never trusting what stands there (D12).
enum DayRowReader {
    /// The columns of `source_days`, called `row`, in the order that `SourceRowReader` reads: the values as one array,
    /// whose elements cost the client a fraction of what columns do.
    static let sourceColumns = """
        row.user_id, row.day, row.source, row.origin, row.closed, row.version, row.versions,
        ARRAY[\(MetricColumns.names.map { "row.\($0)" }.joined(separator: ", "))]
        """
    /// The columns of `canonical_days` in the order that `canonicalRow` reads.
    static let canonicalColumns =
        "user_id, day, rule_version, final, winner_sources, winner_origins, \(MetricColumns.list)"

    static func key(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> (user: UserID, day: CalendarDay) {
        let user = try result.uuid(row, 0)
        return (UserID(high: user.high, low: user.low), CalendarDay(daysSinceEpoch: try result.date(row, 1)))
    }

    static func sourceRow(_ result: PostgresResult, _ row: Int) throws -> SourceRow {
        try SourceRowReader(result).sourceRow(row)
    }

    static func canonicalRow(_ result: PostgresResult, _ row: Int) throws -> (day: CanonicalDay, rules: Int32) {
        var values = MetricValues()
        for metric in Metric.allCases {
            let column = 6 + metric.index
            if try result.isNull(row, column) { continue }
            guard let tenths = MetricColumns.tenths(real: try result.float4(row, column)) else {
                throw StorageError.impossibleValue
            }
            values[metric] = tenths
        }
        let sources = try result.bytea(row, 4)
        let origins = try result.isNull(row, 5) ? [] : try result.textArray(row, 5)
        guard sources.count == values.mask.count, origins.isEmpty || origins.count == sources.count else {
            throw StorageError.unreadableWinners
        }
        var winners: [Provenance] = []
        for (index, number) in sources.enumerated() {
            guard let source = Source(rawValue: number) else { throw StorageError.unknownSource }
            let origin = origins.isEmpty ? "" : (origins[index] ?? "")
            winners.append(Provenance(source: source, origin: origin))
        }
        let day = CanonicalDay(values: values, winners: winners, isFinal: try result.bool(row, 3))
        return (day, try result.int4(row, 2))
    }
}

/// What stands in the database cannot be what a Daybook wrote.
public enum StorageError: Error, CustomStringConvertible {
    case unknownSource, impossibleValue, unreadableVersions, unreadableWinners, unreadablePreferences
    case unreadableWindow, unreadableDevice, incompleteSnapshot, rolledBack, movedSchedule

    public var description: String {
        let what =
            switch self {
            case .unknownSource: "a row names a source that this build does not know: deploy a newer build"
            case .impossibleValue: "a stored value is outside what any reading can be"
            case .unreadableVersions: "a row's versions are not in a format that this build knows"
            case .unreadableWinners: "a canonical row's winners do not match its values"
            case .unreadablePreferences: "an account's preferences are not in a format that this build knows"
            case .unreadableWindow:
                "a connection's window is not in a format that this build knows: deploy a newer build"
            case .rolledBack: "the database answered COMMIT with ROLLBACK: nothing was written"
            case .unreadableDevice: "a device token's row is not as this build writes it: deploy a newer build"
            case .movedSchedule:
                "a row of wake_schedule was written by somebody who does not hold its account's lock: find out who; "
                    + "what was claimed meanwhile is not sent, and settled by time"
            case .incompleteSnapshot: "the database did not return a row that was locked a moment before"
            }
        return what
    }
}

extension [SourceRow] {
    /// Keeps a day's few rows in the order that the rules expect.
    mutating func insert(sorted row: SourceRow) {
        let place = firstIndex { row.provenance < $0.provenance } ?? endIndex
        insert(row, at: place)
    }
}
