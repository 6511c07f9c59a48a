public import Domain
public import Postgres

/// One signing key's row: the provider token that all workers share.
public struct ProviderTokenRow: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    public var jwt: String?
    public var issuedAt: Instant?
    public var pausedUntil: Instant?
    /// Names the team and the key that signed it.
    public var signer: String?

    public init(jwt: String? = nil, issuedAt: Instant? = nil, pausedUntil: Instant? = nil, signer: String? = nil) {
        self.jwt = jwt
        self.issuedAt = issuedAt
        self.signer = signer
        self.pausedUntil = pausedUntil
    }

    public var description: String { "***" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Provider tokens in the database. Owned by one thread.
public struct ProviderTokenRows {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Apple counts tokens that are made more often than this as too many.
    public static let shortestSeconds = 20 * 60

    public func row(keyID: String) throws(PostgresError) -> ProviderTokenRow {
        var parameters = PostgresParameters()
        parameters.append(text: keyID)
        let result = try connection.executeUnprepared(
            "SELECT jwt, issued_at, paused_until, signer FROM provider_tokens WHERE key_id = $1::text",
            parameters
        )
        guard result.rowCount == 1 else { return ProviderTokenRow() }
        let pausedUntil = try result.int8(0, 2)
        return ProviderTokenRow(
            jwt: try result.isNull(0, 0) ? nil : try result.text(0, 0),
            issuedAt: try result.isNull(0, 1) ? nil : Instant(microseconds: try result.int8(0, 1)),
            pausedUntil: pausedUntil == 0 ? nil : Instant(microseconds: pausedUntil),
            signer: try result.isNull(0, 3) ? nil : try result.text(0, 3)
        )
    }

    /// Compare and set: the token is stored where the one issued at `previous` (nil: none) still stands, and never less
    /// than 20 minutes after it.
    ///
    /// - Returns: what is stored afterwards.
    public func renew(
        keyID: String,
        from previous: Instant?,
        jwt: String,
        issuedAt: Instant,
        signer: String? = nil
    ) throws(PostgresError) -> ProviderTokenRow {
        var parameters = PostgresParameters()
        parameters.append(text: keyID)
        if let previous { parameters.append(int8: previous.microseconds) } else { parameters.appendNull(.int8) }
        parameters.append(text: jwt)
        parameters.append(int8: issuedAt.microseconds)
        parameters.append(int8: Int64(Self.shortestSeconds) * 1_000_000)
        if let signer { parameters.append(text: signer) } else { parameters.appendNull(.text) }
        try connection.executeUnprepared(
            """
            INSERT INTO provider_tokens AS held (key_id, jwt, issued_at, signer)
            VALUES ($1::text, $3::text, $4::int8, $6::text)
            ON CONFLICT (key_id) DO UPDATE
            SET jwt = excluded.jwt, issued_at = excluded.issued_at, signer = excluded.signer
            WHERE held.issued_at IS NOT DISTINCT FROM $2::int8
                AND (held.issued_at IS NULL OR excluded.issued_at >= held.issued_at + $5::int8)
            """,
            parameters
        )
        return try row(keyID: keyID)
    }

    /// The later of two ends holds.
    public func pause(keyID: String, until end: Instant) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(text: keyID)
        parameters.append(int8: end.microseconds)
        try connection.executeUnprepared(
            """
            INSERT INTO provider_tokens AS held (key_id, paused_until) VALUES ($1::text, $2::int8)
            ON CONFLICT (key_id) DO UPDATE SET paused_until = greatest(held.paused_until, excluded.paused_until)
            """,
            parameters
        )
    }
}
