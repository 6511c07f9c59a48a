internal import Domain
internal import Observability
internal import Postgres
internal import Push
internal import Storage
internal import Synchronization

/// Provider tokens through the database, so that all workers use one. On a connection of its own, since it is asked on
/// a thread of the sender's.
final class SharedTokens: ProviderTokenStore {
    private let connection: Mutex<PostgresConnection?>
    private let connect: @Sendable () throws -> PostgresConnection
    private let issuedAt = Mutex<Instant?>(nil)

    init(connect: @escaping @Sendable () throws -> PostgresConnection) {
        self.connect = connect
        connection = Mutex(nil)
    }

    /// When the token that was seen last was made.
    var lastIssuedAt: Instant? { issuedAt.withLock { $0 } }

    func credential(keyID: String) throws -> ProviderCredential {
        try with { try $0.row(keyID: keyID) }
    }

    func renew(keyID: String, from previous: Instant?, to token: ProviderToken) throws -> ProviderCredential {
        try with {
            try $0.renew(keyID: keyID, from: previous, jwt: token.jwt, issuedAt: token.issuedAt, signer: token.signer)
        }
    }

    func pause(keyID: String, until end: Instant) throws {
        _ = try with { rows in
            try rows.pause(keyID: keyID, until: end)
            return try rows.row(keyID: keyID)
        }
    }

    private func with(_ body: (ProviderTokenRows) throws -> ProviderTokenRow) throws -> ProviderCredential {
        let row = try connection.withLock { held in
            let connection = try held ?? connect()
            if connection.isBroken { try connection.reconnect() }
            held = connection
            return try body(ProviderTokenRows(connection))
        }
        var credential = ProviderCredential(pausedUntil: row.pausedUntil)
        if let jwt = row.jwt, let issued = row.issuedAt {
            credential.token = ProviderToken(jwt: jwt, issuedAt: issued, signer: row.signer)
            issuedAt.withLock { $0 = issued }
        }
        return credential
    }
}
