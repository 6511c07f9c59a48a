import DevelopmentStack
import Foundation
import Glibc
import PushStandIn
import ServiceRuntime
import Testing

@testable import Push

/// Our client with somebody else's server, our stand-in with somebody else's client: Debian's nghttp2-server and
/// nghttp2-client. Without them these tests say so and are skipped.
@Suite struct PeerTests {
    static let nghttpd = program("nghttpd")
    static let h2load = program("h2load")

    @Test(.enabled(if: PeerTests.nghttpd != nil, "nghttpd is not installed (apt-get install nghttp2-server)"))
    func `our client works with nghttpd`() throws {
        let nghttpd = try #require(Self.nghttpd)
        let folder = try Folder()
        let root = folder.path + "/root/3/device"
        try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
        let certificates = try #require(DevelopmentKeys.certificates(for: "DNS:localhost"))
        for (name, bytes) in [
            ("authority", certificates.authority), ("certificate", certificates.certificate),
            ("key", certificates.privateKey),
        ] {
            try Data(bytes).write(to: URL(fileURLWithPath: "\(folder.path)/\(name)"))
        }
        for id in 0..<500 { try Data().write(to: URL(fileURLWithPath: "\(root)/\(Scene.token(id))")) }
        let scene = try Scene { configuration, standIn in
            // A port that was free a moment ago.
            configuration.apns?.production.port = try Self.freePort()
            configuration.certificateFile = folder.path + "/authority"
            configuration.fcm = nil
        }
        let port = try #require(scene.productionPort)
        let peer = try Peer(
            nghttpd,
            [
                "-a", "127.0.0.1", "-d", folder.path + "/root", "\(port)", folder.path + "/key",
                folder.path + "/certificate",
            ]
        )
        defer { peer.stop() }
        #expect(peer.listens(port))
        for id in 0..<500 { #expect(scene.send(id)) }
        #expect(scene.collector.wait(ended: 500))
        #expect(scene.collector.outcomes.values.allSatisfy { $0 == [.accepted] })
        // It knows no such file: a 404 is our configuration.
        #expect(scene.outcome(900) == .failed(.requestRefused))
    }

    @Test(.enabled(if: PeerTests.h2load != nil, "h2load is not installed (apt-get install nghttp2-client)"))
    func `our stand-in works with h2load`() throws {
        let h2load = try #require(Self.h2load)
        let folder = try Folder()
        let standIn = try PushStandIn(folder: folder.path)
        defer { standIn.stop() }
        let body = folder.path + "/body"
        try Data(RequestText.apnsBody).write(to: URL(fileURLWithPath: body))
        let output = folder.path + "/output"
        let address = "https://localhost:\(standIn.port)/3/device/aa"
        let peer = try Peer(h2load, ["-n", "2000", "-c", "4", "-m", "50", "-d", body, address], output: output)
        #expect(peer.waitForEnd())
        #expect(try String(contentsOfFile: output, encoding: .utf8).contains("2000 succeeded"))
        #expect(standIn.received.count == 2000)
        #expect(standIn.received.allSatisfy { $0.body == RequestText.apnsBody && $0.token == "aa" })
    }

    private static func freePort() throws -> UInt16 {
        let folder = try Folder()
        let gone = try PushStandIn(folder: folder.path)
        defer { gone.stop() }
        return gone.port
    }

    private static func program(_ name: String) -> String? {
        ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }
}

/// A program that ends with this object.
private final class Peer {
    private let child: ChildProcess

    init(_ path: String, _ arguments: [String], output: String = "/dev/null") throws {
        let launch = ChildProcess.Launch(
            program: path,
            arguments: arguments,
            environment: ["PATH": "/usr/bin:/bin"],
            logPath: output
        )
        child = try ChildProcess.start(launch)
    }

    /// False if it takes longer than 30 seconds: nothing tells us when it ends.
    func waitForEnd() -> Bool {
        for _ in 0..<1500 {
            if child.poll() != nil { return true }
            poll(nil, 0, 20)
        }
        return false
    }

    func stop() { child.kill() }

    /// Whether somebody listens there within ten seconds: nothing tells us when another program does.
    func listens(_ port: UInt16) -> Bool {
        for _ in 0..<500 {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let status = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            if status == 0 { return true }
            poll(nil, 0, 20)
        }
        return false
    }
}
