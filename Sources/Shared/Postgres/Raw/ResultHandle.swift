import CLibPQ
import Glibc

/// Owns a `PGresult`.
final class ResultHandle {
    enum Status {
        case command, rows, pipelineSync, pipelineAborted, failed, copy
    }

    private let result: OpaquePointer

    init(owning result: OpaquePointer) {
        self.result = result
    }

    deinit {
        PQclear(result)
    }

    var status: Status {
        switch PQresultStatus(result) {
        case PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: .command
        case PGRES_TUPLES_OK, PGRES_SINGLE_TUPLE: .rows
        case PGRES_PIPELINE_SYNC: .pipelineSync
        case PGRES_PIPELINE_ABORTED: .pipelineAborted
        case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH: .copy
        default: .failed
        }
    }

    var rowCount: Int { Int(PQntuples(result)) }
    var columnCount: Int { Int(PQnfields(result)) }
    var commandTag: String { PQcmdStatus(result).map { String(cString: $0) } ?? "" }

    var affectedRows: Int {
        PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
    }

    func columnName(_ column: Int) -> String? {
        PQfname(result, Int32(clamping: column)).map { String(cString: $0) }
    }

    /// Of a column that exists.
    func type(_ column: Int) -> PostgresType {
        PostgresType(rawValue: PQftype(result, Int32(clamping: column)))
    }

    /// Of a column that exists.
    func isBinary(_ column: Int) -> Bool {
        PQfformat(result, Int32(clamping: column)) == 1
    }

    /// Of a cell that exists: its bytes, or nil for NULL; valid while this object lives.
    func bytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer? {
        let (row, column) = (Int32(clamping: row), Int32(clamping: column))
        guard PQgetisnull(result, row, column) == 0 else { return nil }
        return UnsafeRawBufferPointer(
            start: PQgetvalue(result, row, column),
            count: Int(PQgetlength(result, row, column))
        )
    }

    /// As `bytes`, with no bytes for NULL: one call the less.
    func rawBytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        let (row, column) = (Int32(truncatingIfNeeded: row), Int32(truncatingIfNeeded: column))
        let length = Int(PQgetlength(result, row, column))
        return length == 0
            ? UnsafeRawBufferPointer(start: nil, count: 0)
            : UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: length)
    }

    /// The server ends the session with this error; the end of the stream may still be on its way.
    var endsSession: Bool {
        let severity = Self.field(result, daybook_pg_diag_severity)
        return severity == "FATAL" || severity == "PANIC"
    }

    func error(connectionLost: Bool) -> PostgresError {
        guard let sqlState = Self.field(result, daybook_pg_diag_sqlstate) else {
            return connectionLost
                ? ConnectionHandle.lostError
                : PostgresError(message: "the server's answer could not be read; connect again")
        }
        return .reported(
            sqlState: sqlState,
            primaryMessage: Self.field(result, daybook_pg_diag_message) ?? "",
            constraint: Self.field(result, daybook_pg_diag_constraint),
            table: Self.field(result, daybook_pg_diag_table),
            column: Self.field(result, daybook_pg_diag_column),
            connectionLost: connectionLost
        )
    }

    /// Reads a notice, which libpq frees itself.
    static func notice(borrowing result: OpaquePointer) -> PostgresNotice {
        let error = PostgresError.reported(
            sqlState: field(result, daybook_pg_diag_sqlstate) ?? "00000",
            primaryMessage: field(result, daybook_pg_diag_message) ?? ""
        )
        return PostgresNotice(
            severity: field(result, daybook_pg_diag_severity) ?? "NOTICE",
            sqlState: error.sqlState ?? "00000",
            message: error.message
        )
    }

    private static func field(_ result: OpaquePointer, _ code: Int32) -> String? {
        PQresultErrorField(result, code).map { String(cString: $0) }
    }
}
