/// What the caller does about a failed statement; a function of the SQLSTATE alone.
public enum PostgresDisposition: Hashable, Sendable {
    /// The data is at fault: bisect the batch to the one record and put it aside.
    case poison
    /// No partition takes the row: make it and try again.
    case missingPartition
    /// A conflict or a time-out: the same work succeeds later, on the same connection.
    case retry
    /// The server or the way to it: connect again and retry for ever, never put a record aside.
    case unavailable
    /// A fault of the program, the schema or the rights: stop and say why.
    case stop

    /// `sqlState` has five characters, or is nil where the server said nothing. A row without a partition fails as a
    /// check without a constraint's name. A server that says why it ends the session (57P01, 25P03) is believed before
    /// the loss of the connection counts.
    public static func of(sqlState: String?, hasConstraint: Bool, connectionLost: Bool) -> PostgresDisposition {
        guard let sqlState, sqlState.utf8.count == 5 else { return connectionLost ? .unavailable : .stop }
        switch sqlState {
        case "23514": return hasConstraint ? .poison : .missingPartition
        case "21000": return .poison
        case "40001", "40P01", "25P03", "55P03", "57014": return .retry
        case "25006": return .unavailable
        default: break
        }
        if sqlState.hasPrefix("57P") { return .unavailable }
        switch sqlState.prefix(2) {
        case "22", "23": return .poison
        case "08", "53": return .unavailable
        default: return connectionLost ? .unavailable : .stop
        }
    }
}
