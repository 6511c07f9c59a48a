import Foundation
import Glibc

/// The files of one cluster, and what they say about a running server.
struct PostgresClusterFiles: Sendable {
    let location: PostgresClusterLocation

    var data: String { location.directory + "/data" }
    var log: String { location.directory + "/log" }
    private var pidFile: String { data + "/postmaster.pid" }
    private var portFile: String { location.directory + "/port" }

    /// The release that made the data, if there is any.
    var dataMajor: String? { text(data + "/PG_VERSION")?.trimmingCharacters(in: .whitespacesAndNewlines) }

    var password: String? {
        text(location.passwordFile)?.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The port of the last start, which is kept if it is free: saved URLs stay right.
    var lastPort: UInt16? {
        get { text(portFile).flatMap { UInt16($0.trimmingCharacters(in: .whitespacesAndNewlines)) } }
        nonmutating set { try? newValue.map { "\($0)\n" }?.write(toFile: portFile, atomically: true, encoding: .utf8) }
    }

    struct Postmaster {
        let pid: pid_t
        let port: UInt16
        let socketDirectory: String
        let isReady: Bool
    }

    /// The server that runs on this data, if one does; a pid file whose process is gone or another program is stale.
    func postmaster() -> Postmaster? {
        guard let text = text(pidFile) else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard let pid = lines.first.flatMap({ pid_t($0) }), pid > 1 else { return nil }
        let cwd = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/cwd")
        guard cwd == realPath(data) else { return nil }
        return Postmaster(
            pid: pid,
            port: lines.count > 3 ? UInt16(lines[3]) ?? 0 : 0,
            socketDirectory: lines.count > 4 ? lines[4] : "",
            isReady: lines.count > 7 && lines[7].hasPrefix("ready")
        )
    }

    /// PostgreSQL itself refuses to start when the number in a stale file belongs to any other program by now.
    func removeStalePidFile() {
        if postmaster() == nil { unlink(pidFile) }
    }

    /// The server's user may write here, nobody else may look.
    func makeOwnFolder(_ path: String) throws {
        let user = try PostgresClusterProcess.serverUser()
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw PostgresClusterError("cannot make the folder \(path): \(String(cString: strerror(errno)))")
        }
        if PostgresClusterProcess.isRoot {
            guard chown(path, user.uid, user.gid) == 0 else {
                throw PostgresClusterError(
                    "cannot give \(path) to the postgres user: \(String(cString: strerror(errno)))"
                )
            }
        }
    }

    func checkOwner() throws {
        var status = stat()
        guard stat(data, &status) == 0 else { return }
        let user = try PostgresClusterProcess.serverUser()
        guard status.st_uid != user.uid else { return }
        throw PostgresClusterError(
            "the data in \(data) belongs to user \(status.st_uid), but the server would run as user \(user.uid): start "
                + "as the user who made it, or remove the folder"
        )
    }

    /// A new password, in a file that only the caller can read.
    func makePassword() throws -> String {
        var generator = SystemRandomNumberGenerator()
        let alphabet = Array("abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789")
        let password = String((0..<28).compactMap { _ in alphabet.randomElement(using: &generator) })
        unlink(location.passwordFile)
        let file = open(location.passwordFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else {
            throw PostgresClusterError(
                "cannot write \(location.passwordFile): \(String(cString: strerror(errno)))"
            )
        }
        defer { close(file) }
        let line = Array((password + "\n").utf8)
        guard write(file, line, line.count) == line.count else {
            throw PostgresClusterError("cannot write \(location.passwordFile): the disk may be full")
        }
        return password
    }

    /// The folder for the socket: the address of a socket has room for 107 bytes, so a deep state folder needs another
    /// place for it.
    func makeSocketFolder() throws -> String {
        let inside = location.directory + "/socket"
        if inside.utf8.count + "/.s.PGSQL.65535".utf8.count <= 107 {
            try? FileManager.default.removeItem(atPath: inside)
            try makeOwnFolder(inside)
            return inside
        }
        var template = Array("/tmp/daybook-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw PostgresClusterError("cannot make a folder under /tmp: \(String(cString: strerror(errno)))")
        }
        let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        try makeOwnFolder(folder)
        return folder
    }

    /// Up to 20 lines that were written behind `offset`.
    func logTail(from offset: UInt64) -> String {
        guard let file = FileHandle(forReadingAtPath: log) else { return "" }
        defer { try? file.close() }
        let end = (try? file.seekToEnd()) ?? 0
        try? file.seek(toOffset: max(offset, end > 16_384 ? end - 16_384 : 0))
        let text = String(decoding: (try? file.readToEnd()) ?? Data(), as: UTF8.self)
        return text.split(separator: "\n").suffix(20).joined(separator: "\n")
    }

    /// Opens the log for appending; one of over 16 MB is put aside first.
    func openLog() throws -> (file: Int32, offset: UInt64) {
        var status = stat()
        if stat(log, &status) == 0, status.st_size > 16 << 20 { rename(log, log + ".1") }
        let file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o640)
        guard file >= 0 else {
            throw PostgresClusterError("cannot write \(log): \(String(cString: strerror(errno)))")
        }
        let offset = fstat(file, &status) == 0 ? UInt64(clamping: status.st_size) : 0
        return (file, offset)
    }

    private func text(_ path: String) -> String? {
        try? String(contentsOfFile: path, encoding: .utf8)
    }

    private func realPath(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
