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

    /// All users in so many stretches of equal width, at most 256.
    public static func parts(_ count: Int) -> [UserRange] {
        let count = UInt64(min(max(count, 1), 256))
        let width = UInt64.max / count
        return (0..<count).map { number in
            UserRange(
                first: UserID(high: number * width, low: 0),
                last: UserID(high: number == count - 1 ? .max : (number + 1) * width - 1, low: .max)
            )
        }
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

    /// Some users from the beginning of the stretch, in one read-only snapshot; nil where it holds none any more.
    /// Canonical days that belong to no account are found, too.
    /// The page begins at the stretch's first user and has at most `limit` users.
    public func snapshot(_ range: UserRange, limit: Int) throws -> UserPage? {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        defer { _ = try? connection.simpleQuery("COMMIT") }
        return try read(range, limit: limit, locks: false)
    }

    /// Reads a page inside a transaction; `locks`: takes the accounts' locks first, in the order of their keys as every
    /// writer does.
    func read(_ range: UserRange, limit: Int, locks: Bool) throws -> UserPage? {
        var parameters = Self.parameters(range)
        parameters.append(int8: Int64(limit))
        let accounts = try connection.executeUnprepared(
            """
            SELECT user_id, preferences FROM accounts
            WHERE user_id BETWEEN $1::uuid AND $2::uuid ORDER BY user_id LIMIT $3::int8
            \(locks ? "FOR NO KEY UPDATE" : "")
            """,
            parameters
        )
        var preferences: [UserID: Preferences] = [:]
        var last = range.last
        for row in 0..<accounts.rowCount {
            let words = try accounts.uuid(row, 0)
            let user = UserID(high: words.high, low: words.low)
            if accounts.rowCount == limit { last = user }
            if try accounts.isNull(row, 1) { continue }
            let stored = try accounts.withBytea(row, 1) { PreferencesCodec.decode($0) }
            guard let stored else { throw StorageError.unreadablePreferences }
            preferences[user] = stored
        }
        // In statements of their own, so that they are as new as the locks.
        let control = try connection.executeUnprepared("SELECT rule_version, retention_floor FROM control")
        guard control.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        let rules = try control.int4(0, 0)
        var days: [UserDay: UserPage.Day] = [:]
        let page = UserRange(first: range.first, last: last)
        let floor = try control.date(0, 1)
        try readSources(page, floor, into: &days)
        try readCanonical(page, floor, into: &days)
        if accounts.rowCount == 0 && days.isEmpty { return nil }
        return UserPage(
            last: last,
            users: accounts.rowCount,
            rules: rules,
            days: days.values.sorted { $0.key < $1.key },
            preferences: preferences
        )
    }

    private func readSources(_ page: UserRange, _ floor: Int32, into days: inout [UserDay: UserPage.Day]) throws {
        var parameters = Self.parameters(page)
        parameters.append(date: floor)
        let result = try connection.executeUnprepared(
            """
            SELECT \(DayRowReader.sourceColumns) FROM source_days
            WHERE user_id BETWEEN $1::uuid AND $2::uuid AND day >= $3::date
            """,
            parameters
        )
        for row in 0..<result.rowCount {
            let found = try DayRowReader.key(result, row)
            let key = UserDay(user: found.user, day: found.day)
            let source = try DayRowReader.sourceRow(result, row)
            days[key, default: UserPage.Day(key: key, rows: [], stored: nil)].rows.insert(sorted: source)
        }
    }

    private func readCanonical(_ page: UserRange, _ floor: Int32, into days: inout [UserDay: UserPage.Day]) throws {
        var parameters = Self.parameters(page)
        parameters.append(date: floor)
        let result = try connection.executeUnprepared(
            """
            SELECT \(DayRowReader.canonicalColumns) FROM canonical_days
            WHERE user_id BETWEEN $1::uuid AND $2::uuid AND day >= $3::date
            """,
            parameters
        )
        for row in 0..<result.rowCount {
            let found = try DayRowReader.key(result, row)
            let key = UserDay(user: found.user, day: found.day)
            let canonical = try DayRowReader.canonicalRow(result, row)
            var day = days[key] ?? UserPage.Day(key: key, rows: [], stored: nil)
            day.stored = canonical.day
            day.storedRules = canonical.rules
            days[key] = day
        }
    }

    private static func parameters(_ range: UserRange) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: range.first.high, low: range.first.low)
        parameters.append(uuidHigh: range.last.high, low: range.last.low)
        return parameters
    }
}
