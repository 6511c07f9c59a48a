public import Domain
public import Postgres

/// Reads of whole days for people and tools; the batch has its own.
public struct DayReads {
    public struct StoredCanonicalDay {
        public let key: UserDay
        public let day: CanonicalDay
        public let ruleVersion: Int32
    }

    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    public func account(_ user: UserID) throws -> Account? {
        let result = try connection.executeUnprepared(
            "SELECT deleted_version, preferences FROM accounts WHERE user_id = $1::uuid",
            Self.parameters(user)
        )
        guard result.rowCount == 1 else { return nil }
        var preferences = Preferences()
        if try !result.isNull(0, 1) {
            let stored = try result.withBytea(0, 1) { PreferencesCodec.decode($0) }
            guard let stored else { throw StorageError.unreadablePreferences }
            preferences = stored
        }
        return Account(deleted: Version(rawValue: try result.int8(0, 0)), preferences: preferences)
    }

    /// Each day's rows sorted by provenance, with their effective versions; the days in order.
    public func sourceRows(
        of user: UserID,
        _ days: ClosedRange<CalendarDay>
    ) throws -> [(day: CalendarDay, rows: [SourceRow])] {
        // One statement, so that row and window are of one moment.
        let result = try connection.executeUnprepared(
            """
            \(Self.effectiveRows) WHERE row.user_id = $1::uuid AND row.day BETWEEN $2::date AND $3::date ORDER BY row.day
            """,
            Self.parameters(user, days)
        )
        var list: [(day: CalendarDay, rows: [SourceRow])] = []
        for row in 0..<result.rowCount {
            let day = try DayRowReader.key(result, row).day
            let new = try Self.effectiveRow(result, row, day)
            if list.last?.day != day { list.append((day, [])) }
            list[list.count - 1].rows.insert(sorted: new)
        }
        return list
    }

    /// Source rows with the window of their connection, behind the columns that `DayRowReader` reads.
    private static let effectiveRows = """
        SELECT \(DayRowReader.sourceColumns), connections.recent_window
        FROM source_days AS row LEFT JOIN connections
            ON connections.user_id = row.user_id AND connections.source = row.source
            AND connections.origin = row.origin
        """

    private static let windowColumn = SourceRowReader.end

    /// The row as it is meant: with its window's version folded in.
    private static func effectiveRow(_ result: PostgresResult, _ row: Int, _ day: CalendarDay) throws -> SourceRow {
        var stored = try DayRowReader.sourceRow(result, row)
        if try result.isNull(row, windowColumn) { return stored }
        let window = try result.withBytea(row, windowColumn) { Window(encoded: $0) }
        guard let window else { throw StorageError.unreadableWindow }
        stored.state.fold(window[day])
        return stored
    }

    public func canonicalDays(of user: UserID, _ days: ClosedRange<CalendarDay>) throws -> [StoredCanonicalDay] {
        let result = try connection.executeUnprepared(
            """
            SELECT \(DayRowReader.canonicalColumns) FROM canonical_days
            WHERE user_id = $1::uuid AND day BETWEEN $2::date AND $3::date ORDER BY day
            """,
            Self.parameters(user, days)
        )
        return try (0..<result.rowCount).map { row in
            let key = try DayRowReader.key(result, row)
            let (day, rules) = try DayRowReader.canonicalRow(result, row)
            return StoredCanonicalDay(key: UserDay(user: key.user, day: key.day), day: day, ruleVersion: rules)
        }
    }

    /// In microseconds since 1970; sorted by provenance.
    public func connections(
        of user: UserID
    ) throws -> [(provenance: Provenance, lastPushAt: Int64, lastDataAt: Int64)] {
        let result = try connection.executeUnprepared(
            "SELECT source, origin, last_push_at, last_data_at FROM connections WHERE user_id = $1::uuid",
            Self.parameters(user)
        )
        var list: [(provenance: Provenance, lastPushAt: Int64, lastDataAt: Int64)] = []
        for row in 0..<result.rowCount {
            guard let source = Source(rawValue: UInt8(clamping: try result.int2(row, 0))) else {
                throw StorageError.unknownSource
            }
            let provenance = Provenance(source: source, origin: try result.text(row, 1))
            list.append((provenance, try result.int8(row, 2), try result.int8(row, 3)))
        }
        return list.sorted { $0.provenance < $1.provenance }
    }

    /// The meaning of the tables as a number each that does not depend on any order, read in one snapshot and in
    /// portions. Meant for checks and drills: it reads everything.
    public func tableHashes() throws -> (sources: TableHash, canonical: TableHash, devices: TableHash) {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0")
        defer { _ = try? connection.simpleQuery("ROLLBACK") }
        var hashes = (sources: TableHash(), canonical: TableHash(), devices: TableHash())
        try inPortions(Self.effectiveRows) { result, row in
            let key = try DayRowReader.key(result, row)
            hashes.sources.add(user: key.user, day: key.day, row: try Self.effectiveRow(result, row, key.day))
        }
        try inPortions("SELECT \(DayRowReader.canonicalColumns) FROM canonical_days") { result, row in
            let key = try DayRowReader.key(result, row)
            let day = try DayRowReader.canonicalRow(result, row).day
            hashes.canonical.add(user: key.user, day: key.day, canonical: day)
        }
        try inPortions(Self.ownedDevices) { result, row in
            hashes.devices.add(
                token: try DeviceRowReader.key(result, row).hash,
                user: try DeviceRowReader.key(result, row).user,
                entry: try DeviceRowReader.entry(result, row),
                isOwner: try result.bool(row, DeviceRowReader.nextColumn)
            )
        }
        return hashes
    }

    /// Entries of device tokens, and whether nobody has registered the token later.
    private static let ownedDevices = """
        SELECT \(DeviceRowReader.columns), NOT EXISTS (
            SELECT FROM device_tokens AS later WHERE later.token_hash = held.token_hash
                AND (later.registered_version, later.user_id) > (held.registered_version, held.user_id)
        ) FROM device_tokens AS held
        """

    /// How many canonical days are not what their source rows and preferences say, of how many; in one snapshot.
    public func drift(of user: UserID) throws -> (drifted: Int, days: Int) {
        let all = CalendarDay(daysSinceEpoch: -700_000)...CalendarDay(daysSinceEpoch: 2_900_000)
        let preferences = try account(user)?.preferences ?? Preferences()
        var stored: [CalendarDay: CanonicalDay] = [:]
        for day in try canonicalDays(of: user, all) { stored[day.key.day] = day.day }
        let sources = try sourceRows(of: user, all)
        var drifted = Set(stored.keys).subtracting(sources.map(\.day)).count
        for (day, rows) in sources
        where stored[day] != CanonicalDay(resolving: rows, preferences: preferences) { drifted += 1 }
        return (drifted, sources.count)
    }

    private func inPortions(_ query: String, _ body: (PostgresResult, Int) throws -> Void) throws {
        try connection.executeUnprepared("DECLARE portions NO SCROLL CURSOR FOR \(query)")
        while true {
            let result = try connection.executeUnprepared("FETCH 5000 FROM portions")
            for row in 0..<result.rowCount { try body(result, row) }
            if result.rowCount == 0 { break }
        }
        try connection.executeUnprepared("CLOSE portions")
    }

    private static func parameters(_ user: UserID, _ days: ClosedRange<CalendarDay>? = nil) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: user.high, low: user.low)
        if let days {
            parameters.append(date: days.lowerBound.daysSinceEpoch)
            parameters.append(date: days.upperBound.daysSinceEpoch)
        }
        return parameters
    }
}
