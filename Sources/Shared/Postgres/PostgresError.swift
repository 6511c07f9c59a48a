/// Why a statement, a connection or the reading of a result failed. Its text never holds a value: neither a parameter,
/// nor the server's DETAIL, nor a password.
public struct PostgresError: Error, Hashable, Sendable {
    /// Five characters; nil when the server did not answer or the fault lies on our side.
    public var sqlState: String?
    /// One line, free of values.
    public var message: String
    public var constraint: String?
    public var table: String?
    public var column: String?
    /// The connection is gone; whether a COMMIT under way was applied is unknown.
    public var connectionLost: Bool
    /// The position in the pipeline of the statement that failed, from 0.
    public var statementIndex: Int?

    public init(
        sqlState: String? = nil,
        message: String,
        constraint: String? = nil,
        table: String? = nil,
        column: String? = nil,
        connectionLost: Bool = false
    ) {
        self.sqlState = sqlState
        self.message = message
        self.constraint = constraint
        self.table = table
        self.column = column
        self.connectionLost = connectionLost
    }

    public var disposition: PostgresDisposition {
        .of(sqlState: sqlState, hasConstraint: constraint != nil, connectionLost: connectionLost)
    }

    /// An error as the server reported it, with its primary message only where that cannot carry a value.
    public static func reported(
        sqlState: String,
        primaryMessage: String,
        constraint: String? = nil,
        table: String? = nil,
        column: String? = nil,
        connectionLost: Bool = false
    ) -> PostgresError {
        let isShowable = showableClasses.contains(String(sqlState.prefix(2)))
        return PostgresError(
            sqlState: sqlState,
            message: isShowable ? primaryMessage : withheldMessage(sqlState),
            constraint: constraint,
            table: table,
            column: column,
            connectionLost: connectionLost
        )
    }

    /// Classes whose primary messages name objects and states, never data: connection, feature, transaction and cursor
    /// states, authorization, catalog and schema names, rollbacks, syntax and access rules, resources, limits,
    /// prerequisites, operator intervention, system and internal errors.
    private static let showableClasses: Set<String> = [
        "08", "0A", "21", "24", "25", "26", "28", "34", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "XX",
    ]

    private static func withheldMessage(_ sqlState: String) -> String {
        switch sqlState {
        case "22003": "a number is out of range for its column"
        case "22021": "text is not valid UTF-8 or holds a NUL"
        case "22P02", "22P03", "22007": "a value has the wrong form for its type"
        case "22001": "a value is too long for its column"
        case "23502": "a NULL where the column allows none"
        case "23503": "a foreign key points at a missing row"
        case "23505": "a row with this key exists already"
        case "23514": "a check constraint does not hold, or no partition takes the row"
        default: "the server refused a value (its message is withheld because it may quote the value)"
        }
    }
}

extension PostgresError: CustomStringConvertible {
    public var description: String {
        var text = sqlState.map { "PostgreSQL error \($0): \(message)" } ?? "PostgreSQL: \(message)"
        if let table { text += "; table \(table)" }
        if let column { text += "; column \(column)" }
        if let constraint { text += "; constraint \(constraint)" }
        if let statementIndex { text += "; statement \(statementIndex) of the pipeline" }
        return text
    }
}

/// A warning or notice from the server.
public struct PostgresNotice: Hashable, Sendable {
    /// NOTICE, WARNING, INFO, LOG or DEBUG.
    public let severity: String
    public let sqlState: String
    /// Held back, like an error's, where it may quote a value.
    public let message: String
}
