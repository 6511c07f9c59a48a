public import DevelopmentStack
import Foundation
import Glibc
import Synchronization

/// One PostgreSQL server for the whole test process, started by the first test that asks. It ends with the process,
/// even with one that was killed, and its files are removed.
public enum PrivatePostgres {
    private static let shared = Result { try start() }
    private static let databases = Atomic<Int>(0)
    private static let prefix = "daybook-test-"

    /// - Returns: the server; a test that stops or kills it spoils it for the others and makes its own instead.
    /// - Throws: `PostgresClusterError` when it cannot be started.
    public static func cluster() throws -> PostgresCluster {
        try shared.get()
    }

    /// An empty database that no other test has.
    ///
    /// - Returns: its URL.
    /// - Throws: when the server cannot be started.
    public static func freshDatabase(template: String = "template1") throws -> String {
        let number = databases.add(1, ordering: .relaxed).newValue
        return try cluster().createDatabase(named: "test_\(getpid())_\(number)", template: template)
    }

    /// A server of its own for a test that stops or kills it; `stop()` removes its files.
    ///
    /// - Returns: a cluster that has not been started.
    /// - Throws: when its folder cannot be made.
    public static func makeCluster(mode: PostgresCluster.Mode = .disposable) throws -> PostgresCluster {
        var template = Array("/tmp/\(prefix)\(getpid())-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The server's user goes through this folder; what is private lies in folders of their own.
        chmod(folder, 0o711)
        let location = try PostgresClusterLocation.locate(stateFolder: folder, fallbackName: "test")
        return PostgresCluster(location: location, mode: mode)
    }

    private static func start() throws -> PostgresCluster {
        removeLeftovers()
        let cluster = try makeCluster()
        try cluster.start()
        return cluster
    }

    /// Folders of test processes that are gone: the watchdog removes the server's part, and nobody the rest.
    private static func removeLeftovers() {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/tmp")) ?? []
        for name in names where name.hasPrefix(prefix) {
            let pid = name.dropFirst(prefix.count).prefix { $0 != "-" }
            guard let owner = pid_t(pid), kill(owner, 0) != 0, errno == ESRCH else { continue }
            let folder = "/tmp/\(name)"
            if let location = try? PostgresClusterLocation.locate(stateFolder: folder, fallbackName: "test") {
                try? PostgresCluster(location: location).stopLeftover()
            }
            try? FileManager.default.removeItem(atPath: folder)
        }
    }
}
