import DevelopmentStack
import Foundation
import Glibc
import Postgres
import TestSupport
import Testing

@Suite struct PostgresClusterTests {
    /// A durable cluster that is removed behind the test.
    private func withCluster(_ body: (PostgresCluster) throws -> Void) throws {
        let cluster = try PrivatePostgres.makeCluster(mode: .durable)
        defer {
            cluster.stop()
            try? cluster.location.removeAll()
            rmdir((cluster.location.passwordFile as NSString).deletingLastPathComponent)
        }
        try body(cluster)
    }

    @Test func `data, port and password survive a restart`() throws {
        try withCluster { cluster in
            #expect(cluster.status == .stopped)
            try cluster.start()
            let url = try cluster.tcpURL()
            let first = try PostgresConnection(url: url, applicationName: "test")
            try first.simpleQuery("CREATE TABLE t AS SELECT 42 AS k")
            let pid = try #require(cluster.postmasterPID)
            cluster.stop()
            #expect(cluster.status == .stopped)
            #expect(kill(pid, 0) != 0)
            #expect(throws: PostgresClusterError.self) { try cluster.socketURL() }
            try cluster.start()
            #expect(try cluster.tcpURL() == url)
            let second = try PostgresConnection(url: url, applicationName: "test")
            #expect(try second.simpleQuery("SELECT k FROM t")[0].text(0, 0) == "42")
            #expect(try second.simpleQuery("SHOW data_checksums")[0].text(0, 0) == "on")
        }
    }

    @Test func `the password's file is for its owner only, and the data too`() throws {
        try withCluster { cluster in
            try cluster.start()
            for (path, mode) in [
                (cluster.location.passwordFile, 0o600), (cluster.location.directory, 0o700),
            ] {
                let attributes = try FileManager.default.attributesOfItem(atPath: path)
                #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == mode, "\(path)")
            }
        }
    }

    @Test func `a killed server is noticed, and its pid file does not stop the next start`() throws {
        try withCluster { cluster in
            let gone = DispatchSemaphore(value: 0)
            try cluster.start(onExit: { gone.signal() })
            let pid = try #require(cluster.postmasterPID)
            kill(pid, SIGKILL)
            #expect(gone.wait(timeout: .now() + 20) == .success)
            #expect(cluster.status == .stopped)
            // By now the number in the file belongs to another living process.
            let file = cluster.location.directory + "/data/postmaster.pid"
            let old = try String(contentsOfFile: file, encoding: .utf8)
            let rest = old.split(separator: "\n", omittingEmptySubsequences: false).dropFirst().joined(separator: "\n")
            try "\(getpid())\n\(rest)".write(toFile: file, atomically: false, encoding: .utf8)
            #expect(cluster.status == .stopped)
            try cluster.start()
            _ = try PostgresConnection(url: cluster.socketURL(), applicationName: "test")
        }
    }

    @Test func `a second owner takes a left-over server for what it is`() throws {
        try withCluster { cluster in
            try cluster.start()
            let first = try #require(cluster.postmasterPID)
            let second = PostgresCluster(location: cluster.location)
            try second.start()
            defer { second.stop() }
            #expect(second.postmasterPID != first)
            _ = try PostgresConnection(url: second.socketURL(), applicationName: "test")
        }
    }

    @Test func `a wished port that is taken is said, an unwished one is changed`() throws {
        try withCluster { cluster in
            try cluster.start()
            guard case .running(_, let port) = cluster.status else {
                Issue.record("not running")
                return
            }
            try withCluster { other in
                let error = #expect(throws: PostgresClusterError.self) { try other.start(port: port) }
                #expect(error?.description.contains("port \(port)") == true)
                try other.start()
            }
        }
    }

    @Test func `a server that does not start says why, with its log`() throws {
        try withCluster { cluster in
            try cluster.start()
            cluster.stop()
            let settings = cluster.location.directory + "/data/postgresql.auto.conf"
            let handle = try #require(FileHandle(forWritingAtPath: settings))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("shared_buffers = 'nonsense'\n".utf8))
            try handle.close()
            let error = #expect(throws: PostgresClusterError.self) { try cluster.start() }
            #expect(error?.description.contains(cluster.logPath) == true)
            #expect(error?.description.contains("shared_buffers") == true)
        }
    }

    @Test func `a server log holds neither values nor statements`() throws {
        try withCluster { cluster in
            try cluster.start()
            let connection = try PostgresConnection(url: cluster.socketURL(), applicationName: "test")
            try connection.simpleQuery("CREATE TABLE t (k int PRIMARY KEY, v int CHECK (v > 0))")
            #expect(throws: PostgresError.self) { try connection.simpleQuery("INSERT INTO t VALUES (1, -4711)") }
            cluster.stop()
            let log = try String(contentsOfFile: cluster.logPath, encoding: .utf8)
            #expect(log.contains("violates check constraint"))
            #expect(!log.contains("4711"))
        }
    }

    @Test(.enabled(if: geteuid() == 0, "only root has folders that the server's user cannot reach"))
    func `a state folder under root's home gets its data elsewhere, with a link`() throws {
        var template = Array("/tmp/daybook-test-\(getpid())-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        let home = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer { try? FileManager.default.removeItem(atPath: home) }
        let state = home + "/checkout/.daybook"
        let name = "test-\(getpid())"
        let location = try PostgresClusterLocation.locate(stateFolder: state, fallbackName: name)
        defer { try? location.removeAll() }
        #expect(location.directory == "/var/lib/daybook/\(name)/postgres")
        #expect(location.note?.contains(location.directory) == true)
        let cluster = PostgresCluster(location: location)
        try cluster.start()
        defer { cluster.stop() }
        #expect(FileManager.default.fileExists(atPath: state + "/postgres/data/PG_VERSION"))
        let again = try PostgresClusterLocation.locate(stateFolder: state, fallbackName: "other")
        #expect(again.directory == location.directory)
        cluster.stop()
        try location.removeAll()
        #expect(!FileManager.default.fileExists(atPath: "/var/lib/daybook/\(name)"))
        #expect((try? FileManager.default.destinationOfSymbolicLink(atPath: state + "/postgres")) == nil)
    }

    @Test func `a deep folder gets its socket elsewhere`() throws {
        let base = try PrivatePostgres.makeCluster(mode: .durable)
        let outer = (base.location.passwordFile as NSString).deletingLastPathComponent
        defer { try? FileManager.default.removeItem(atPath: outer) }
        let folder = outer + "/" + String(repeating: "d", count: 100)
        let location = try PostgresClusterLocation.locate(stateFolder: folder, fallbackName: "test-deep")
        #expect(location.link == nil)
        let cluster = PostgresCluster(location: location)
        try cluster.start()
        defer { cluster.stop() }
        #expect(try cluster.socketURL().contains("host=%2Ftmp%2Fdaybook"))
        _ = try PostgresConnection(url: cluster.socketURL(), applicationName: "test")
    }
}
