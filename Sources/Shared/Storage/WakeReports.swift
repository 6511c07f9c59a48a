public import Domain
public import Postgres

/// What became of wakes, for operators and metrics.
public struct WakeReports {
    /// One round of sends on one platform and app version.
    public struct Campaign: Hashable, Sendable {
        /// When the round began.
        public let began: Instant
        public let platform: String
        public let appVersion: String
        /// Taken up by a push server, or may have been.
        public let sent: Int
        /// Ended without: never tried, refused, or no server could be reached.
        public let notSent: Int
        public let accepted: Int
        /// Of the accepted ones, those that a push answered within ten minutes, an hour, four hours.
        public let within10Minutes: Int
        public let within1Hour: Int
        public let within4Hours: Int
        /// Of the accepted ones, those whose answer changed a value.
        public let broughtData: Int
    }

    /// How wakes of the last hours were answered.
    public struct Answers: Hashable, Sendable {
        /// Nil where none was accepted.
        public let share: Double?
        /// By quantile.
        public let minutes: [String: Double]

        public init(share: Double?, minutes: [String: Double]) {
            self.share = share
            self.minutes = minutes
        }
    }

    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Outcomes of wakes that no push server has taken up.
    public static let unsentOutcomes = [
        "lease_ended", "stopped", "credential_paused", "no_credential", "malformed_token", "not_configured",
        "shutting_down", "no_token", "refused",
    ]

    /// The rounds that began since then, newest first. A wake that is under way is in none of the counts.
    public func campaigns(since: Instant) throws(PostgresError) -> [Campaign] {
        var parameters = PostgresParameters()
        parameters.append(int8: since.microseconds)
        var unsent = PostgresArray(of: .text)
        for outcome in Self.unsentOutcomes { unsent.append(text: outcome) }
        parameters.append(unsent)
        let result = try connection.executeUnprepared(
            """
            SELECT campaign, platform, app_version,
                count(*) FILTER (WHERE outcome <> ALL ($2::text[])), count(*) FILTER (WHERE outcome = ANY ($2::text[])),
                count(*) FILTER (WHERE outcome = 'accepted'),
                \(["600", "3600", "14400"].map { Self.answeredWithin($0) }.joined(separator: ", ")),
                count(*) FILTER (WHERE outcome = 'accepted' AND brought_data)
            FROM push_sends WHERE wake_at >= $1::int8 AND campaign >= $1::int8
            GROUP BY campaign, platform, app_version ORDER BY campaign DESC, platform, app_version
            """,
            parameters
        )
        var campaigns: [Campaign] = []
        for row in 0..<result.rowCount {
            func count(_ column: Int) throws(PostgresError) -> Int { Int(try result.int8(row, column)) }
            campaigns.append(
                Campaign(
                    began: Instant(microseconds: try result.int8(row, 0)),
                    platform: try result.text(row, 1),
                    appVersion: try result.text(row, 2),
                    sent: try count(3),
                    notSent: try count(4),
                    accepted: try count(5),
                    within10Minutes: try count(6),
                    within1Hour: try count(7),
                    within4Hours: try count(8),
                    broughtData: try count(9)
                )
            )
        }
        return campaigns
    }

    private static func answeredWithin(_ seconds: String) -> String {
        "count(*) FILTER (WHERE outcome = 'accepted' AND answered_at - wake_at <= \(seconds)::int8 * 1000000)"
    }

    /// Of wakes that were accepted between four and eight hours ago.
    public func answers(now: Instant) throws(PostgresError) -> Answers {
        var parameters = PostgresParameters()
        parameters.append(int8: now.advanced(bySeconds: -8 * 3600).microseconds)
        parameters.append(int8: now.advanced(bySeconds: -4 * 3600).microseconds)
        // By the small index on time: the session offers no bitmap scan otherwise.
        try connection.simpleQuery("SET enable_bitmapscan = on")
        let result = try connection.executeUnprepared(
            """
            SELECT count(*), count(minutes), percentile_cont(0.5) WITHIN GROUP (ORDER BY minutes),
                percentile_cont(0.9) WITHIN GROUP (ORDER BY minutes)
            FROM (
                SELECT CASE WHEN answered_at - wake_at <= 14400000000
                    THEN ((answered_at - wake_at) / 60000000.0)::float8 END AS minutes
                FROM push_sends WHERE wake_at >= $1::int8 AND wake_at < $2::int8 AND outcome = 'accepted'
            ) AS accepted
            """,
            parameters
        )
        let accepted = try result.int8(0, 0)
        var minutes: [String: Double] = [:]
        for (column, quantile) in [(2, "0.5"), (3, "0.9")] where accepted > 0 {
            guard try !result.isNull(0, column) else { continue }
            minutes[quantile] = try result.float8(0, column)
        }
        let share = accepted == 0 ? nil : Double(try result.int8(0, 1)) / Double(accepted)
        return Answers(share: share, minutes: minutes)
    }

    /// The last wakes of a user, newest first.
    public func wakes(of user: UserID, limit: Int) throws(PostgresError) -> [Wake] {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: user.high, low: user.low)
        parameters.append(int4: Int32(clamping: limit))
        let result = try connection.executeUnprepared(
            """
            SELECT wake_at, outcome, answered_at, brought_data, tokens::int4 FROM push_sends
            WHERE user_id = $1::uuid ORDER BY wake_at DESC LIMIT $2::int4
            """,
            parameters
        )
        var wakes: [Wake] = []
        for row in 0..<result.rowCount {
            wakes.append(
                Wake(
                    wakeAt: Instant(microseconds: try result.int8(row, 0)),
                    outcome: try result.isNull(row, 1) ? nil : try result.text(row, 1),
                    answeredAt: try result.isNull(row, 2) ? nil : Instant(microseconds: try result.int8(row, 2)),
                    broughtData: try result.isNull(row, 3) ? nil : try result.bool(row, 3),
                    tokens: Int(try result.int4(row, 4))
                )
            )
        }
        return wakes
    }

    /// One wake of a user.
    public struct Wake: Hashable, Sendable {
        public let wakeAt: Instant
        /// Nil while its claim is open.
        public let outcome: String?
        public let answeredAt: Instant?
        public let broughtData: Bool?
        public let tokens: Int
    }
}
