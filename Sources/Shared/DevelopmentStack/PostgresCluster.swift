import Foundation
import Glibc
import Postgres
import Synchronization

/// A private PostgreSQL server on a folder of its own, reachable on 127.0.0.1 (with a password) and over a socket in a
/// folder that only its user may enter (without one).
///
/// The server ends when this process does, however it ends: a small shell between the two holds a pipe to this process,
/// and stops the server when the pipe closes.
///
/// The caller sees to it that no second process uses the same folder: a server found running there is taken for a
/// left-over and stopped.
public final class PostgresCluster: Sendable {
    public enum Mode: Sendable {
        /// Survives crashes and power cuts.
        case durable
        /// For tests: fast, and removed with everything in it when the process ends.
        case disposable
    }

    public enum Status: Hashable, Sendable {
        case stopped
        case starting(pid: Int32)
        case running(pid: Int32, port: UInt16)
    }

    /// The user that owns everything in the cluster.
    public static let user = "daybook"

    private struct Running {
        var port: UInt16
        var socketDirectory: String
        var watchdog: pid_t
        /// Closing it stops the server.
        var lifeline: Int32
        var ended: DispatchSemaphore
    }

    public let location: PostgresClusterLocation
    private let mode: Mode
    private let files: PostgresClusterFiles
    private let running = Mutex<Running?>(nil)

    public init(location: PostgresClusterLocation, mode: Mode = .durable) {
        self.location = location
        self.mode = mode
        files = PostgresClusterFiles(location: location)
    }

    public var logPath: String { files.log }

    /// The server process, for whoever wants to look at it or kill it.
    public var postmasterPID: Int32? { files.postmaster()?.pid }

    public var status: Status {
        guard let postmaster = files.postmaster() else { return .stopped }
        return postmaster.isReady
            ? .running(pid: postmaster.pid, port: postmaster.port) : .starting(pid: postmaster.pid)
    }

    /// Makes the cluster if there is none, and starts it.
    ///
    /// - Parameters:
    ///   - port: wanted; nil takes the one of the last start if it is free, else any.
    ///   - readyWithin: recovery after a crash is a part of it.
    ///   - onExit: called once, on a thread of its own, when this server is gone, wanted or not.
    /// - Throws: `PostgresClusterError`, with the log's path and last lines where there are any.
    public func start(
        port: UInt16? = nil,
        readyWithin: Duration = .seconds(120),
        onExit: (@Sendable () -> Void)? = nil
    ) throws {
        try create()
        try stopLeftover()
        var attempt = 1
        while true {
            guard let free = PortChoice.any(preferring: port ?? files.lastPort), port == nil || port == free else {
                throw PostgresClusterError(
                    "port \(port ?? 0) on 127.0.0.1 is taken: stop what uses it, or choose another"
                )
            }
            do {
                try launch(port: free, readyWithin: readyWithin, onExit: onExit)
                break
            } catch  where "\(error)".contains("Address already in use") && attempt < 4 && port == nil {
                attempt += 1
            }
        }
        try ensureDatabase(Self.user)
    }

    /// Stops the server (fast: sessions are ended, data is flushed), by force after `limit`.
    public func stop(limit: Duration = .seconds(30)) {
        guard let state = running.withLock({ $0 }) else { return }
        release(lifelineOf: state.watchdog)
        let seconds = Double(max(1, limit.components.seconds))
        defer { state.ended.signal() }  // for the next one who waits
        guard state.ended.wait(timeout: .now() + seconds) == .timedOut else { return }
        if let pid = files.postmaster()?.pid { kill(pid, SIGQUIT) }
        guard state.ended.wait(timeout: .now() + 5) == .timedOut else { return }
        if let pid = files.postmaster()?.pid { kill(pid, SIGKILL) }
        _ = state.ended.wait(timeout: .now() + 5)
    }

    /// Stops a server that a killed process left behind; without one it does nothing.
    public func stopLeftover() throws {
        if let postmaster = files.postmaster() {
            kill(postmaster.pid, SIGINT)
            let deadline = ContinuousClock.now + .seconds(30)
            while files.postmaster() != nil {
                guard ContinuousClock.now < deadline else {
                    kill(postmaster.pid, SIGQUIT)
                    throw PostgresClusterError(
                        "a PostgreSQL server (pid \(postmaster.pid)) still runs on \(files.data) and does not stop: "
                            + "end it and start again"
                    )
                }
                usleep(20_000)
            }
        }
        files.removeStalePidFile()
    }

    // MARK: Reaching it

    /// Over the socket, without a password: for this machine's parts.
    ///
    /// - Throws: when the server does not run.
    /// - Returns: a `postgres://` URL.
    public func socketURL(database: String = PostgresCluster.user) throws -> String {
        let state = try current()
        return "postgres://\(Self.user)@/\(Self.quoted(database))?host=\(Self.quoted(state.socketDirectory))"
            + "&port=\(state.port)"
    }

    /// Over 127.0.0.1, with the password: for a person's own tools.
    ///
    /// - Throws: when the server does not run.
    /// - Returns: a `postgres://` URL that holds the password.
    public func tcpURL(database: String = PostgresCluster.user) throws -> String {
        let state = try current()
        return "postgres://\(Self.user):\(files.password ?? "")@127.0.0.1:\(state.port)/\(Self.quoted(database))"
    }

    /// Makes an empty database, as a copy of another one where `template` names it.
    ///
    /// - Returns: its URL over the socket.
    /// - Throws: `PostgresError`; also when it exists already.
    @discardableResult
    public func createDatabase(named name: String, template: String = "template1") throws -> String {
        let connection = try PostgresConnection(url: socketURL(database: "postgres"), applicationName: "daybook up")
        try connection.simpleQuery("CREATE DATABASE \(Self.identifier(name)) TEMPLATE \(Self.identifier(template))")
        return try socketURL(database: name)
    }

    public func dropDatabase(named name: String) throws {
        let connection = try PostgresConnection(url: socketURL(database: "postgres"), applicationName: "daybook up")
        try connection.simpleQuery("DROP DATABASE IF EXISTS \(Self.identifier(name)) WITH (FORCE)")
    }

    // MARK: Inside

    private func current() throws -> Running {
        guard let state = running.withLock({ $0 }) else {
            throw PostgresClusterError("the private PostgreSQL server does not run; its log: \(files.log)")
        }
        return state
    }

    private func ensureDatabase(_ name: String) throws {
        let connection = try PostgresConnection(url: socketURL(database: "postgres"), applicationName: "daybook up")
        var parameters = PostgresParameters()
        parameters.append(text: name)
        let found = try connection.executeUnprepared("SELECT FROM pg_database WHERE datname = $1", parameters)
        if found.rowCount == 0 { try connection.simpleQuery("CREATE DATABASE \(Self.identifier(name))") }
    }

    /// Into a folder beside, then renamed: half a cluster is never taken for one.
    private func create() throws {
        try files.makeOwnFolder(location.directory)
        try files.checkOwner()
        guard files.dataMajor == nil else { return }
        let binaries = try PostgresClusterBinaries.find(dataMajor: nil)
        let unfinished = location.directory + "/data.new"
        for path in [unfinished, files.data] { try? FileManager.default.removeItem(atPath: path) }
        try files.makeOwnFolder(unfinished)
        let passwordForServer = location.directory + "/password.new"
        try files.makePassword().write(toFile: passwordForServer, atomically: false, encoding: .utf8)
        defer { unlink(passwordForServer) }
        if PostgresClusterProcess.isRoot {
            let user = try PostgresClusterProcess.serverUser()
            chown(passwordForServer, user.uid, user.gid)
        }
        let command = [
            binaries.initdb, "-D", unfinished, "-U", Self.user, "-E", "UTF8", "--locale=C.UTF-8", "--auth-local=trust",
            "--auth-host=scram-sha-256", "--pwfile=\(passwordForServer)",
            mode == .disposable ? "--no-sync" : "--data-checksums",
        ]
        let (status, output) = try PostgresClusterProcess.run(PostgresClusterProcess.asServerUser(command))
        guard status == 0, rename(unfinished, files.data) == 0 else {
            try? FileManager.default.removeItem(atPath: unfinished)
            let tail = output.split(separator: "\n").suffix(8).joined(separator: "\n")
            throw PostgresClusterError.failedStart(of: "initdb in \(location.directory)", tail: tail, log: nil)
        }
    }

    /// Starts the watchdog, which starts the server, and waits until the server is ready or gone.
    private func launch(port: UInt16, readyWithin: Duration, onExit: (@Sendable () -> Void)?) throws {
        let binaries = try PostgresClusterBinaries.find(dataMajor: files.dataMajor)
        let socketDirectory = try files.makeSocketFolder()
        let (log, offset) = try files.openLog()
        defer { close(log) }
        guard let channel = PostgresClusterProcess.makeChannel() else {
            throw PostgresClusterError("no file descriptors left: raise the limit (ulimit -n)")
        }
        let server = try PostgresClusterProcess.asServerUser(
            [binaries.postgres, "-D", files.data]
                + PostgresWatchdog.settings(mode, port: port, socketDirectory: socketDirectory)
        )
        let command = PostgresWatchdog.command(location, mode, socketDirectory: socketDirectory, server: server)
        let child = PostgresClusterProcess.spawn(command, input: channel.theirs, output: log)
        close(channel.theirs)
        guard let child else {
            close(channel.ours)
            throw PostgresClusterError("\(command[0]) cannot be run: install Debian's package util-linux")
        }
        let state = Running(
            port: port,
            socketDirectory: socketDirectory,
            watchdog: child,
            lifeline: channel.ours,
            ended: DispatchSemaphore(value: 0)
        )
        running.withLock { $0 = state }
        Thread.detachNewThread { [self] in
            _ = PostgresClusterProcess.wait(for: child)
            release(lifelineOf: child)
            running.withLock { if $0?.watchdog == child { $0 = nil } }
            state.ended.signal()
            onExit?()
        }
        let deadline = ContinuousClock.now + readyWithin
        while files.postmaster()?.isReady != true {
            let isGone = running.withLock { $0?.watchdog != child }
            if isGone || ContinuousClock.now > deadline {
                if !isGone { stop(limit: .seconds(5)) }
                let tail = files.logTail(from: offset)
                throw PostgresClusterError.failedStart(of: "PostgreSQL", tail: tail, log: files.log)
            }
            usleep(10_000)
        }
        files.lastPort = port
    }

    private func release(lifelineOf watchdog: pid_t) {
        running.withLock { state in
            guard let lifeline = state?.lifeline, state?.watchdog == watchdog, lifeline >= 0 else { return }
            close(lifeline)
            state?.lifeline = -1
        }
    }

    private static func quoted(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? text
    }

    private static func identifier(_ name: String) -> String {
        "\"" + name.replacingOccurrences(of: "\"", with: "\"\"") + "\""
    }
}
