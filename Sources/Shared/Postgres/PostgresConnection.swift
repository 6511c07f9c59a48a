/// Where a connection stands with respect to transactions.
public enum PostgresTransactionStatus: Hashable, Sendable {
    case idle, active, inTransaction, failed, unknown
}

/// A statement that this connection has prepared; gone after `reconnect()`.
public struct PostgresPrepared: Hashable, Sendable {
    public let name: String
}

/// One connection to PostgreSQL, owned by one thread. Every call blocks that thread until the server has answered.
///
/// A lost connection stays lost until `reconnect()`; there is no retry in here.
public final class PostgresConnection {
    /// What every session that holds locks should have, so that a frozen owner of locks loses them.
    public static let recommendedSettings: [(String, String)] = [
        ("statement_timeout", "30s"),
        ("lock_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("plan_cache_mode", "force_generic_plan"),
        ("tcp_user_timeout", "15s"),
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("TimeZone", "UTC"),
    ]

    /// Receives the server's notices and warnings, on the owner's thread, inside the call that brought them.
    public var noticeHandler: ((PostgresNotice) -> Void)? {
        get { notices.handler }
        set { notices.handler = newValue }
    }

    /// How long the server may be silent while a statement runs before the connection is given up: for a server that is
    /// frozen rather than gone. Keep it above `statement_timeout`. Nil waits for ever.
    public var silenceLimit: Duration?

    /// Work of the owner's to do while a statement's answer is awaited: called again and again, until the answer comes or
    /// it returns false. A piece should take some microseconds, and must not use this connection.
    public var whileWaiting: (() -> Bool)?

    private let options: [(String, String)]
    private let connectTimeout: Duration
    private let notices = ConnectionHandle.NoticeReceiver()
    private var handle: ConnectionHandle?

    /// Connects.
    ///
    /// - Parameters:
    ///   - url: `postgres://user:password@host:port/database?…` or libpq's key=value form. It never appears in an error.
    ///   - applicationName: what `pg_stat_activity` shows.
    ///   - settings: session settings, sent with the start of the session; they count behind the URL's own `options`.
    ///   - connectTimeout: for the whole of connecting, but for the resolving of the host's name.
    /// - Throws: an error that says why, without the password.
    public init(
        url: String,
        applicationName: String,
        settings: [(String, String)] = PostgresConnection.recommendedSettings,
        connectTimeout: Duration = .seconds(10)
    ) throws(PostgresError) {
        // An @ here is a piece of a password that was not quoted, and must not turn up in an error as a name.
        guard let parsed = ConnectionHandle.parse(url: url),
            !["host", "dbname"].contains(where: { keyword in
                parsed[keyword]?.contains("@") ?? false
            })
        else { throw ConnectFailure.unreadableURL }
        let sessionOptions = settings.map { "-c \($0.0)=\(Self.escaped($0.1))" }
        options = [
            ("keepalives", "1"), ("keepalives_idle", "10"), ("keepalives_interval", "5"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "15000"),
            ("dbname", url),
            ("application_name", applicationName),
            ("client_encoding", "UTF8"),
            ("options", ((parsed["options"].map { [$0] } ?? []) + sessionOptions).joined(separator: " ")),
        ]
        self.connectTimeout = connectTimeout
        try reconnect()
    }

    /// Closes what is open and connects anew; prepared statements and the transaction are gone.
    public func reconnect() throws(PostgresError) {
        handle = nil
        let deadline = MonotonicDeadline(millisecondsFromNow: connectTimeout.clampedMilliseconds)
        handle = try ConnectionHandle(options: options, deadline: deadline, notices: notices)
    }

    public func close() {
        handle = nil
    }

    /// The connection is closed, lost or given up: only `reconnect()` helps.
    public var isBroken: Bool { handle?.isBroken ?? true }

    /// The server process, as in `pg_stat_activity`; 0 when not connected.
    public var backendPID: Int32 { handle?.backendPID ?? 0 }

    /// 150020 for 15.20; 0 when not connected.
    public var serverVersion: Int { handle?.serverVersion ?? 0 }

    public var transactionStatus: PostgresTransactionStatus { handle?.transactionStatus ?? .unknown }

    /// Something that stops this connection's running statement from another thread (57014). It belongs to the session
    /// of now; make a new one after `reconnect()`.
    public func makeCanceller() -> PostgresCanceller? { handle?.makeCanceller() }

    /// Runs one or several statements without parameters; results are text. At the first error the rest is not run.
    @discardableResult
    public func simpleQuery(_ sql: String) throws(PostgresError) -> [PostgresResult] {
        let handle = try open()
        try handle.send(query: sql)
        return try collect(handle)
    }

    /// The name has to be new on this connection; `sql` is one statement with `$1`, `$2`, …; types that are left out are
    /// inferred by the server.
    public func prepare(
        _ name: String,
        _ sql: String,
        parameterTypes: [PostgresType] = []
    ) throws(PostgresError) -> PostgresPrepared {
        let handle = try open()
        try handle.send(prepare: name, sql, parameterTypes)
        _ = try collect(handle)
        return PostgresPrepared(name: name)
    }

    @discardableResult
    public func execute(
        _ prepared: PostgresPrepared,
        _ parameters: borrowing PostgresParameters = PostgresParameters()
    ) throws(PostgresError) -> PostgresResult {
        let handle = try open()
        try handle.send(execute: prepared.name, parameters)
        return try only(collect(handle))
    }

    @discardableResult
    public func executeUnprepared(
        _ sql: String,
        _ parameters: borrowing PostgresParameters = PostgresParameters()
    ) throws(PostgresError) -> PostgresResult {
        let handle = try open()
        try handle.send(execute: sql, unprepared: parameters)
        return try only(collect(handle))
    }

    // MARK: Inside

    func open() throws(PostgresError) -> ConnectionHandle {
        guard let handle, !handle.isBroken else { throw ConnectionHandle.lostError }
        return handle
    }

    func nextResult(_ handle: ConnectionHandle) throws(PostgresError) -> ResultHandle? {
        try handle.nextResult(silence: silenceLimit?.clampedMilliseconds, work: whileWaiting)
    }

    /// Reads a statement's results to their end, so that the connection is free again; then throws the first error.
    private func collect(_ handle: ConnectionHandle) throws(PostgresError) -> [PostgresResult] {
        var results: [PostgresResult] = []
        var failure: PostgresError?
        reading: while let result = try nextResult(handle) {
            switch result.status {
            case .command, .rows:
                results.append(PostgresResult(result))
            case .copy:
                close()
                throw PostgresError(message: "COPY is not supported here; the connection is closed")
            case .failed, .pipelineSync, .pipelineAborted:
                failure = failure ?? handle.error(of: result)
                if handle.isBroken { break reading }
            }
        }
        // The end of the stream is noticed after the server's last words were read.
        if handle.isBroken { failure?.connectionLost = true }
        if let failure { throw failure }
        return results
    }

    private func only(_ results: [PostgresResult]) throws(PostgresError) -> PostgresResult {
        guard let result = results.last else { throw PostgresError(message: "the statement gave no result") }
        return result
    }

    /// The server splits `options` at spaces that no backslash precedes.
    private static func escaped(_ value: String) -> String {
        var text = ""
        for character in value {
            if character == " " || character == "\\" { text.append("\\") }
            text.append(character)
        }
        return text
    }
}

/// Stops the running statement of one session, from any thread.
public final class PostgresCanceller: Sendable {
    private let handle: CancelHandle

    init(handle: CancelHandle) {
        self.handle = handle
    }

    /// Opens a short connection of its own and blocks for it. True means that the request was delivered, not that a
    /// statement was running.
    @discardableResult
    public func cancel() -> Bool { handle.send() }
}

extension Duration {
    fileprivate var clampedMilliseconds: Int32 {
        let (seconds, attoseconds) = components
        guard seconds < Int64(Int32.max) / 1000 else { return .max }
        return Int32(clamping: max(0, seconds) * 1000 + attoseconds / 1_000_000_000_000_000)
    }
}
