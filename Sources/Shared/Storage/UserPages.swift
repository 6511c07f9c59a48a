public import Domain
public import Postgres

/// A stretch of users by id, both ends included.
public struct UserRange: Hashable, Sendable {
    public var first: UserID
    public var last: UserID

    public init(first: UserID, last: UserID) {
        self.first = first
        self.last = last
    }

    public static let all = UserRange(first: UserID(high: 0, low: 0), last: UserID(high: .max, low: .max))

    /// All users in at most so many stretches, of equal width between these two: ids may all begin alike, as those of
    /// version 7 do.
    public static func parts(_ count: Int, between lowest: UserID, and highest: UserID) -> [UserRange] {
        let count = UInt64(min(max(count, 1), 1024))
        guard lowest.high < highest.high else { return [.all] }
        let width = max(1, (highest.high - lowest.high) / count)
        var parts: [UserRange] = []
        var start = UserID(high: 0, low: 0)
        for number in 1..<count {
            let (step, overflow) = width.multipliedReportingOverflow(by: number)
            guard !overflow, step < highest.high - lowest.high else { break }
            let edge = lowest.high + step
            parts.append(UserRange(first: start, last: UserID(high: edge - 1, low: .max)))
            start = UserID(high: edge, low: 0)
        }
        return parts + [UserRange(first: start, last: all.last)]
    }

    /// How far into the stretch a user lies, from 0 to 1.
    public func fraction(of user: UserID) -> Double {
        guard user > first else { return 0 }
        guard user < last else { return 1 }
        return Double(user.high - first.high) / max(1, Double(last.high - first.high))
    }
}

extension UserID {
    /// The next id; nil behind the last one.
    public var successor: UserID? {
        if low < .max { return UserID(high: high, low: low + 1) }
        return high < .max ? UserID(high: high + 1, low: 0) : nil
    }
}

/// Everything that the canonical days of some users are made from, and what is stored of them.
public struct UserPage: Sendable {
    public struct Day: Sendable {
        public let key: UserDay
        /// Sorted by provenance.
        public var rows: [SourceRow]
        public var stored: CanonicalDay?
        /// The rules that made the stored one.
        public var storedRules: Int32?
    }

    /// The users that were looked at, up to and including this one.
    public let last: UserID
    public let users: Int
    /// The rules that are active.
    public let rules: Int32
    /// In the order of their keys; none below the retention floor.
    public let days: [Day]
    private let preferences: [UserID: Preferences]

    /// What the rules make of a day's rows; nil for nothing.
    public func resolved(_ day: Day) -> CanonicalDay? {
        let canonical = CanonicalDay(
            resolving: day.rows,
            preferences: preferences[day.key.user] ?? Preferences()
        )
        return canonical.isEmpty ? nil : canonical
    }

    init(last: UserID, users: Int, rules: Int32, days: [Day], preferences: [UserID: Preferences]) {
        self.last = last
        self.users = users
        self.rules = rules
        self.days = days
        self.preferences = preferences
    }
}

/// Reads users page by page. Belongs to one thread.
public struct UserPages {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// The first and the last user; nil where there is none.
    public func bounds() throws -> (lowest: UserID, highest: UserID)? {
        let result = try connection.executeUnprepared(
            """
            (SELECT user_id FROM accounts ORDER BY user_id LIMIT 1)
            UNION ALL (SELECT user_id FROM accounts ORDER BY user_id DESC LIMIT 1)
            """
        )
        guard result.rowCount == 2 else { return nil }
        return (try Self.user(result, 0), try Self.user(result, 1))
    }

    /// Users by chance, each once: of a large table only some pages are read.
    public func sample(_ count: Int) throws -> [UserID] {
        let found = try connection.executeUnprepared(
            "SELECT greatest(reltuples, 0)::float8 FROM pg_class WHERE oid = 'accounts'::regclass"
        )
        let estimate = found.rowCount == 1 ? try found.float8(0, 0) : 0
        // Four times as many as are wanted, since pages are not full alike.
        let percent = estimate > 0 ? 400 * Double(count) / estimate : 100
        var users = try sample(count, percent: min(100, percent))
        if users.count < count && percent < 100 { users = try sample(count, percent: 100) }
        return users
    }

    private func sample(_ count: Int, percent: Double) throws -> [UserID] {
        var parameters = PostgresParameters()
        parameters.append(int8: Int64(count))
        parameters.append(float8: percent)
        let pages = percent < 100 ? "TABLESAMPLE SYSTEM ($2::float8::real)" : ""
        let whole = percent < 100 ? "" : "WHERE $2::float8 >= 100"
        let result = try connection.executeUnprepared(
            "SELECT user_id FROM accounts \(pages) \(whole) ORDER BY random() LIMIT $1::int8",
            parameters
        )
        return try (0..<result.rowCount).map { try Self.user(result, $0) }
    }

    /// Some users from the beginning of the stretch, at most `limit`, in one read-only snapshot; nil where it holds none
    /// any more. Days that belong to no account are found, too.
    public func snapshot(_ range: UserRange, limit: Int) throws -> UserPage? {
        try reading {
            let users = try accounts(in: range, limit: limit)
            let page = Self.page(range, users, limit: limit)
            let days = try days("user_id BETWEEN $1::uuid AND $2::uuid", Self.parameters(page))
            if users.isEmpty && days.isEmpty { return nil }
            return try make(last: page.last, users: users, days)
        }
    }

    /// Exactly these users, in one read-only snapshot.
    public func snapshot(of users: [UserID]) throws -> UserPage {
        try reading {
            let days = try days("user_id = ANY ($1::uuid[])", Self.parameters(users))
            return try make(last: users.max() ?? UserRange.all.last, users: users, days)
        }
    }

    private func reading<Value>(_ body: () throws -> Value) throws -> Value {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        defer { _ = try? connection.simpleQuery("COMMIT") }
        return try body()
    }

    /// A page inside a transaction, under its accounts' locks, which are taken in the order of their keys as every
    /// writer does. Only what is locked is read: an account that comes in between belongs to its maker.
    ///
    /// - Parameters:
    ///   - range: the page begins at its first user.
    ///   - limit: so many accounts at most.
    ///   - bucket: of a user who has days and no account, which is made first.
    /// - Returns: nil where the stretch holds nobody any more.
    /// - Throws: `PostgresError` or `StorageError`.
    func locked(_ range: UserRange, limit: Int, bucket: (UserID) -> Int16) throws -> UserPage? {
        let known = try accounts(in: range, limit: limit)
        let page = Self.page(range, known, limit: limit)
        let orphans = try orphans(in: page)
        if known.isEmpty && orphans.isEmpty { return nil }
        for orphan in orphans {
            var parameters = PostgresParameters()
            parameters.append(uuidHigh: orphan.high, low: orphan.low)
            parameters.append(int2: bucket(orphan))
            try connection.executeUnprepared(
                "INSERT INTO accounts (user_id, bucket) VALUES ($1::uuid, $2::int2) ON CONFLICT DO NOTHING",
                parameters
            )
        }
        let users = (known + orphans).sorted()
        let locked = try connection.executeUnprepared(
            "SELECT user_id FROM accounts WHERE user_id = ANY ($1::uuid[]) ORDER BY user_id FOR NO KEY UPDATE",
            Self.parameters(users)
        )
        guard locked.rowCount == users.count else { throw StorageError.incompleteSnapshot }
        // In statements of their own, so that they are as new as the locks.
        let days = try days("user_id = ANY ($1::uuid[])", Self.parameters(users))
        return try make(last: page.last, users: users, days)
    }

    private static func page(_ range: UserRange, _ users: [UserID], limit: Int) -> UserRange {
        guard users.count == limit, let last = users.last else { return range }
        return UserRange(first: range.first, last: last)
    }

    private func accounts(in range: UserRange, limit: Int) throws -> [UserID] {
        var parameters = Self.parameters(range)
        parameters.append(int8: Int64(limit))
        let result = try connection.executeUnprepared(
            """
            SELECT user_id FROM accounts
            WHERE user_id BETWEEN $1::uuid AND $2::uuid ORDER BY user_id LIMIT $3::int8
            """,
            parameters
        )
        return try (0..<result.rowCount).map { try Self.user(result, $0) }
    }

    private func orphans(in page: UserRange) throws -> [UserID] {
        let result = try connection.executeUnprepared(
            """
            SELECT DISTINCT user_id FROM canonical_days
            WHERE user_id BETWEEN $1::uuid AND $2::uuid
                AND NOT EXISTS (SELECT FROM accounts WHERE accounts.user_id = canonical_days.user_id)
            """,
            Self.parameters(page)
        )
        return try (0..<result.rowCount).map { try Self.user(result, $0) }
    }

    private func make(last: UserID, users: [UserID], _ days: [UserDay: UserPage.Day]) throws -> UserPage {
        let accounts = try connection.executeUnprepared(
            "SELECT user_id, preferences FROM accounts WHERE user_id = ANY ($1::uuid[]) AND preferences IS NOT NULL",
            Self.parameters(users)
        )
        var preferences: [UserID: Preferences] = [:]
        for row in 0..<accounts.rowCount {
            let stored = try accounts.withBytea(row, 1) { PreferencesCodec.decode($0) }
            guard let stored else { throw StorageError.unreadablePreferences }
            preferences[try Self.user(accounts, row)] = stored
        }
        let control = try connection.executeUnprepared("SELECT rule_version, retention_floor FROM control")
        guard control.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        let floor = CalendarDay(daysSinceEpoch: try control.date(0, 1))
        return UserPage(
            last: last,
            users: users.count,
            rules: try control.int4(0, 0),
            days: days.values.filter { $0.key.day >= floor }.sorted { $0.key < $1.key },
            preferences: preferences
        )
    }

    private func days(
        _ condition: String,
        _ parameters: borrowing PostgresParameters
    ) throws -> [UserDay: UserPage.Day] {
        var days: [UserDay: UserPage.Day] = [:]
        let sources = try connection.executeUnprepared(
            "SELECT \(DayRowReader.sourceColumns) FROM source_days AS row WHERE \(condition)",
            parameters
        )
        for row in 0..<sources.rowCount {
            let found = try DayRowReader.key(sources, row)
            let key = UserDay(user: found.user, day: found.day)
            let source = try DayRowReader.sourceRow(sources, row)
            days[key, default: UserPage.Day(key: key, rows: [], stored: nil)].rows.insert(sorted: source)
        }
        let canonical = try connection.executeUnprepared(
            "SELECT \(DayRowReader.canonicalColumns) FROM canonical_days WHERE \(condition)",
            parameters
        )
        for row in 0..<canonical.rowCount {
            let found = try DayRowReader.key(canonical, row)
            let key = UserDay(user: found.user, day: found.day)
            let stored = try DayRowReader.canonicalRow(canonical, row)
            var day = days[key] ?? UserPage.Day(key: key, rows: [], stored: nil)
            day.stored = stored.day
            day.storedRules = stored.rules
            days[key] = day
        }
        return days
    }

    private static func user(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> UserID {
        let words = try result.uuid(row, 0)
        return UserID(high: words.high, low: words.low)
    }

    private static func parameters(_ range: UserRange) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: range.first.high, low: range.first.low)
        parameters.append(uuidHigh: range.last.high, low: range.last.low)
        return parameters
    }

    private static func parameters(_ users: [UserID]) -> PostgresParameters {
        var list = PostgresArray(of: .uuid)
        for user in users { list.append(uuidHigh: user.high, low: user.low) }
        var parameters = PostgresParameters()
        parameters.append(list)
        return parameters
    }
}
