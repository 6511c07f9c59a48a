import CLibPQ
import Glibc

/// Owns a `PGconn` in non-blocking mode: while it sends it also reads, so that two full buffers cannot block each other.
final class ConnectionHandle {
    static let lostError = PostgresError(
        message: "the connection to the server is lost; connect again",
        connectionLost: true
    )

    /// Called by libpq inside the calls below, on the owner's thread.
    final class NoticeReceiver {
        var handler: ((PostgresNotice) -> Void)?
    }

    private let connection: OpaquePointer
    private let notices: NoticeReceiver
    /// Set when the wait for the server was given up or the server said that it ends the session: libpq still believes
    /// in the connection.
    private var isAbandoned = false
    private var pointers: [UnsafePointer<CChar>?] = []
    private var lengths: [Int32] = []
    private var formats: [Int32] = []
    private var types: [UInt32] = []

    /// Connects; `options` are libpq's keywords, later ones win, `dbname` may be a URL.
    init(
        options: [(String, String)],
        deadline: MonotonicDeadline,
        notices: NoticeReceiver
    ) throws(PostgresError) {
        guard let started = Self.start(options) else {
            throw PostgresError(message: "out of memory while connecting to the database")
        }
        connection = started
        self.notices = notices
        PQsetNoticeReceiver(connection, receiveNotice, Unmanaged.passUnretained(notices).toOpaque())
        // Makes libpq write the SQLSTATE of a refused connection into its message, the only place where it can be read.
        PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
        var next = PGRES_POLLING_WRITING
        while PQstatus(connection) != CONNECTION_BAD {
            guard wait(reading: next == PGRES_POLLING_READING, writing: next == PGRES_POLLING_WRITING, until: deadline)
            else {
                throw ConnectFailure.timedOut(host: host, port: port)
            }
            next = PQconnectPoll(connection)
            if next == PGRES_POLLING_OK || next == PGRES_POLLING_FAILED { break }
        }
        guard PQstatus(connection) == CONNECTION_OK, PQsetnonblocking(connection, 1) == 0 else {
            let text = PQerrorMessage(connection).map { String(cString: $0) } ?? ""
            throw ConnectFailure.error(libpqMessage: text, host: host, port: port)
        }
        PQsetErrorVerbosity(connection, PQERRORS_DEFAULT)
    }

    deinit {
        PQfinish(connection)
    }

    var isBroken: Bool { isAbandoned || PQstatus(connection) == CONNECTION_BAD }
    var backendPID: Int32 { PQbackendPID(connection) }
    var serverVersion: Int { Int(PQserverVersion(connection)) }
    private var host: String { PQhost(connection).map { String(cString: $0) } ?? "" }
    private var port: String { PQport(connection).map { String(cString: $0) } ?? "" }

    var transactionStatus: PostgresTransactionStatus {
        if isBroken { return .unknown }
        return switch PQtransactionStatus(connection) {
        case PQTRANS_IDLE: .idle
        case PQTRANS_ACTIVE: .active
        case PQTRANS_INTRANS: .inTransaction
        case PQTRANS_INERROR: .failed
        default: .unknown
        }
    }

    func makeCanceller() -> PostgresCanceller? {
        PQgetCancel(connection).map { PostgresCanceller(handle: CancelHandle(owning: $0)) }
    }

    // MARK: Sending

    func send(query sql: String) throws(PostgresError) {
        try check(PQsendQuery(connection, sql))
    }

    func send(prepare name: String, _ sql: String, _ parameterTypes: [PostgresType]) throws(PostgresError) {
        let types = parameterTypes.map(\.rawValue)
        try check(PQsendPrepare(connection, name, sql, Int32(clamping: types.count), types))
    }

    func send(execute name: String, _ parameters: borrowing PostgresParameters) throws(PostgresError) {
        let sent = try withPointers(parameters) {
            PQsendQueryPrepared(connection, name, Int32(clamping: lengths.count), pointers, lengths, formats, 1)
        }
        try check(sent)
    }

    func send(execute sql: String, unprepared parameters: borrowing PostgresParameters) throws(PostgresError) {
        let sent = try withPointers(parameters) {
            PQsendQueryParams(connection, sql, Int32(clamping: lengths.count), types, pointers, lengths, formats, 1)
        }
        try check(sent)
    }

    func enterPipeline() throws(PostgresError) {
        try check(PQenterPipelineMode(connection))
    }

    func sendPipelineSync() throws(PostgresError) {
        try check(PQpipelineSync(connection))
    }

    func exitPipeline() throws(PostgresError) {
        try check(PQexitPipelineMode(connection))
    }

    // MARK: Receiving

    /// The next result, or nil at the end of a statement's results. After `silence` milliseconds without a word from
    /// the server the connection is given up. `work` is done a piece at a time while nothing can be read or sent, as long
    /// as it returns true.
    func nextResult(silence: Int32?, work: (() -> Bool)? = nil) throws(PostgresError) -> ResultHandle? {
        guard !isAbandoned else { throw Self.lostError }
        while true {
            // Below zero the socket is dead, and PQgetResult returns at once with what the server said last.
            let unsent = PQflush(connection)
            if unsent < 0 || (unsent == 0 && PQisBusy(connection) == 0) { break }
            let deadline = silence.map { MonotonicDeadline(millisecondsFromNow: $0) } ?? .never
            if let work { while !isReady(writing: unsent > 0) && Self.several(work) {} }
            guard wait(reading: true, writing: unsent > 0, until: deadline) else {
                isAbandoned = true
                throw PostgresError(
                    message: "the server said nothing for too long and the connection is given up; connect again",
                    connectionLost: true
                )
            }
            if PQconsumeInput(connection) == 0 { break }
        }
        return PQgetResult(connection).map(ResultHandle.init(owning:))
    }

    /// The error of a failed result; after one that ends the session the connection counts as broken.
    func error(of result: ResultHandle) -> PostgresError {
        if result.endsSession { isAbandoned = true }
        return result.error(connectionLost: isBroken)
    }

    // MARK: Inside

    private func check(_ succeeded: Int32) throws(PostgresError) {
        guard succeeded != 1 else { return }
        if isBroken { throw Self.lostError }
        throw PostgresError(message: "libpq refused the call: the connection is busy with another statement")
    }

    private func withPointers(
        _ parameters: borrowing PostgresParameters,
        _ body: () -> Int32
    ) throws(PostgresError) -> Int32 {
        if let fault = parameters.fault { throw PostgresError(message: fault) }
        pointers.removeAll(keepingCapacity: true)
        lengths.removeAll(keepingCapacity: true)
        types.removeAll(keepingCapacity: true)
        while formats.count < parameters.count { formats.append(1) }
        return parameters.bytes.withUnsafeBytes { bytes in
            // An empty value is not NULL: it needs an address, and any will do.
            let base = bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 16)
            for entry in parameters.entries {
                let start = entry.length < 0 ? nil : base?.advanced(by: entry.start)
                pointers.append(start?.assumingMemoryBound(to: CChar.self))
                lengths.append(Int32(clamping: max(0, entry.length)))
                types.append(entry.type.rawValue)
            }
            return body()
        }
    }

    /// Does some pieces of work, as many as are worth a look at the socket. Returns whether there is more.
    private static func several(_ work: () -> Bool) -> Bool {
        for _ in 0..<8 where !work() { return false }
        return true
    }

    /// Whether something can be read, or sent; also where the socket is no more.
    private func isReady(writing: Bool) -> Bool {
        let events = POLLIN | (writing ? POLLOUT : 0)
        var descriptor = pollfd(fd: PQsocket(connection), events: Int16(truncatingIfNeeded: events), revents: 0)
        return descriptor.fd < 0 || poll(&descriptor, 1, 0) != 0
    }

    /// False when the deadline passed.
    private func wait(reading: Bool, writing: Bool, until deadline: MonotonicDeadline) -> Bool {
        let events = (reading ? POLLIN : 0) | (writing ? POLLOUT : 0)
        var descriptor = pollfd(fd: PQsocket(connection), events: Int16(truncatingIfNeeded: events), revents: 0)
        guard descriptor.fd >= 0 else { return true }
        while true {
            let ready = poll(&descriptor, 1, deadline.remainingMilliseconds)
            if ready > 0 { return true }
            if ready == 0 { return false }
            if errno != EINTR { return true }
        }
    }

    private static func start(_ options: [(String, String)]) -> OpaquePointer? {
        var keywords = options.map { UnsafePointer<CChar>(strdup($0.0)) }
        var values = options.map { UnsafePointer<CChar>(strdup($0.1)) }
        defer {
            for pointer in keywords + values { free(UnsafeMutablePointer(mutating: pointer)) }
        }
        keywords.append(nil)
        values.append(nil)
        return PQconnectStartParams(keywords, values, 1)
    }

    /// The value of a keyword inside a URL or key=value string; nil for a string that libpq cannot read.
    static func parse(url: String) -> [String: String]? {
        guard !url.utf8.contains(0), let options = PQconninfoParse(url, nil) else { return nil }
        defer { PQconninfoFree(options) }
        var values: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { values[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return values
    }
}

private func receiveNotice(_ context: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
    guard let context, let result else { return }
    let receiver = Unmanaged<ConnectionHandle.NoticeReceiver>.fromOpaque(context).takeUnretainedValue()
    receiver.handler?(ResultHandle.notice(borrowing: result))
}

/// Owns a `PGcancel`.
// Sendable holds: PQcancel only reads the struct and is documented as safe in any thread.
final class CancelHandle: @unchecked Sendable {
    private let cancel: OpaquePointer

    init(owning cancel: OpaquePointer) {
        self.cancel = cancel
    }

    deinit {
        PQfreeCancel(cancel)
    }

    func send() -> Bool {
        var buffer = [CChar](repeating: 0, count: 256)
        return PQcancel(cancel, &buffer, Int32(buffer.count)) == 1
    }
}
