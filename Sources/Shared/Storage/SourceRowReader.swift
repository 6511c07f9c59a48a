internal import Domain
internal import Postgres

/// Reads many rows of `source_days` from one result, never trusting what stands there (D12).
struct SourceRowReader {
    /// Of `DayRowReader.sourceColumns`.
    private static let types: [PostgresType] = [.uuid, .date, .int2, .text, .int4, .int8, .bytea, .float4Array]

    /// Columns behind those that are read here begin with this one.
    static let end = types.count

    private let result: PostgresResult

    /// Throws where the result has other columns.
    init(_ result: PostgresResult) throws(PostgresError) {
        try result.require(Self.types)
        self.result = result
    }

    func key(_ row: Int) throws -> UserDay {
        guard let user = try result.words128(row, 0), let day = try result.word32(row, 1) else {
            throw StorageError.incompleteSnapshot
        }
        let date = PostgresDate.daysSince1970(Int32(bitPattern: day))
        return UserDay(user: UserID(high: user.high, low: user.low), day: CalendarDay(daysSinceEpoch: date))
    }

    func sourceRow(_ row: Int) throws -> SourceRow {
        guard let number = try result.word16(row, 2), let source = Source(rawValue: UInt8(clamping: number)) else {
            throw StorageError.unknownSource
        }
        guard let closed = try result.word32(row, 4), let version = try result.word64(row, 5) else {
            throw StorageError.unreadableVersions
        }
        let origin = result.plainText(row, 3)
        var values = MetricValues()
        try result.forEachWord32(row, 7) { place, word in
            guard let metric = Metric(rawValue: UInt8(clamping: place)),
                let tenths = MetricColumns.tenths(real: Float(bitPattern: word))
            else { throw StorageError.impossibleValue }
            values[metric] = tenths
        }
        let closedSet = MetricSet(rawValue: closed)
        var state = SourceDay(
            values: values,
            closed: closedSet,
            version: Version(rawValue: Int64(bitPattern: version))
        )
        if !result.isEmpty(row, 6) {
            let exceptions = try result.withBytea(row, 6) { VersionsCodec.exceptions(in: $0) }
            guard let exceptions else { throw StorageError.unreadableVersions }
            for (metric, version) in exceptions {
                guard let tenths = values[metric] else { continue }
                let version = Version(rawValue: version)
                state.restore(metric, tenths: tenths, closed: closedSet.has(metric), version: version)
            }
        }
        return SourceRow(provenance: Provenance(source: source, origin: origin), state: state)
    }
}
