/// Turns what libpq says about a failed connection into an error without the parts of a URL that might be a password.
enum ConnectFailure {
    static let unreadableURL = PostgresError(
        message: "the database URL cannot be read; write it as postgres://user:password@host:5432/database, "
            + "with %40 for an @ and %2F for a / inside the password"
    )

    static func timedOut(host: String, port: String) -> PostgresError {
        PostgresError(
            message:
                "no answer from the database at \(place(host, port)) in time; check that it runs and can be reached",
            connectionLost: true
        )
    }

    static func error(libpqMessage text: String, host: String, port: String) -> PostgresError {
        if let (sqlState, message) = serverReport(in: text) {
            return .reported(
                sqlState: sqlState,
                primaryMessage: "\(place(host, port)) refuses the connection: \(message)",
                connectionLost: true
            ).withoutLossIfRefused
        }
        let reason: String
        var isOurFault = false
        if text.contains("Connection refused") || text.contains("No such file or directory") {
            reason = "nothing listens there; check that the database runs"
        } else if text.contains("translate host name") {
            reason = "the host name cannot be resolved; check the database URL"
        } else if text.contains("certificate") || text.contains("SSL") {
            reason = "TLS could not be agreed on; check sslmode and the certificates"
        } else if text.contains("no password supplied") {
            reason = "the server wants a password and the database URL has none"
            isOurFault = true
        } else if text.contains("invalid") {
            return unreadableURL
        } else if text.contains("Permission denied") {
            reason = "the socket may not be opened by this user"
            isOurFault = true
        } else {
            reason = "the connection broke off while it was made; see the server's log"
        }
        return PostgresError(
            message: "cannot connect to the database at \(place(host, port)): \(reason)",
            connectionLost: !isOurFault
        )
    }

    private static let plainBytes = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/:".utf8)

    /// A badly quoted URL can turn a part of the password into the host or the port.
    private static func place(_ host: String, _ port: String) -> String {
        let isPlain = host.utf8.allSatisfy(plainBytes.contains)
        let isKnown = isPlain && port.utf8.allSatisfy({ (48...57).contains($0) })
        return isKnown ? "\(host):\(port)" : "the host of the database URL"
    }

    /// Finds `FATAL:  28P01: password authentication failed …`.
    static func serverReport(in text: String) -> (sqlState: String, message: String)? {
        let bytes = Array(text.utf8)
        guard bytes.count > 9 else { return nil }
        for start in 3..<(bytes.count - 6)
        where bytes[start - 3] == 58 && bytes[start - 2] == 32 && bytes[start - 1] == 32 && bytes[start + 5] == 58 {
            let code = bytes[start..<(start + 5)]
            guard code.allSatisfy({ (48...57).contains($0) || (65...90).contains($0) }) else { continue }
            let message = bytes[(start + 6)...].prefix { $0 != 10 }.drop { $0 == 32 }
            return (String(decoding: code, as: UTF8.self), String(decoding: message, as: UTF8.self))
        }
        return nil
    }
}

extension PostgresError {
    /// A refusal for a lasting reason (rights, unknown database) is no lost connection: retrying does not help.
    fileprivate var withoutLossIfRefused: PostgresError {
        var error = self
        let settled = PostgresDisposition.of(sqlState: sqlState, hasConstraint: false, connectionLost: false)
        error.connectionLost = settled == .unavailable || settled == .retry
        return error
    }
}
