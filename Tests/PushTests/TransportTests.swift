import Foundation
import HTTP2
import PushStandIn
import ServiceRuntime
import Testing

@testable import Push

/// TLS refusals and the proxy.
@Suite struct TransportTests {
    private func refusal(_ scene: Scene) -> PushAlarm? {
        guard case .refused? = scene.outcome(1), scene.collector.wait(alarms: 1) else { return nil }
        return scene.collector.alarms.first
    }

    @Test func `a certificate for another host is refused`() throws {
        var options = PushStandIn.Options()
        options.names = "DNS:elsewhere.example"
        let scene = try Scene(options: options, time: PhaseTime(speed: 50))
        let alarm = try #require(refusal(scene))
        #expect(alarm.code == .unreachable && !alarm.stops)
        #expect(alarm.detail?.contains("mismatch") == true)
        #expect(scene.standIn.received.isEmpty)
    }

    @Test func `an address that the certificate does not name is refused`() throws {
        var options = PushStandIn.Options()
        options.names = "DNS:localhost"
        let scene = try Scene(options: options, time: PhaseTime(speed: 50))
        guard case .refused? = scene.outcome(1, lane: .sandbox) else {
            Issue.record("not refused")
            return
        }
        #expect(scene.outcome(2) == .accepted)
    }

    @Test func `an unknown authority is refused`() throws {
        let other = try Folder()
        let stranger = try PushStandIn(folder: other.path)
        defer { stranger.stop() }
        let scene = try Scene(time: PhaseTime(speed: 50)) { configuration, _ in
            configuration.certificateFile = stranger.authorityFile
        }
        let alarm = try #require(refusal(scene))
        #expect(alarm.detail?.contains("certificate") == true)
        #expect(scene.standIn.received.isEmpty)
    }

    @Test func `a server that does not agree on HTTP/2 is refused`() throws {
        var options = PushStandIn.Options()
        options.speaksHTTP2 = false
        let scene = try Scene(options: options, time: PhaseTime(speed: 50))
        #expect(try #require(refusal(scene)).detail?.contains("HTTP/2") == true)
    }

    @Test func `a name without an address is reported`() throws {
        let scene = try Scene(time: PhaseTime(speed: 50)) { configuration, _ in
            configuration.apns?.production.host = "nobody.invalid"
        }
        #expect(try #require(refusal(scene)).detail?.contains("name") == true)
    }

    @Test func `a file without authorities is refused at the start`() throws {
        let folder = try Folder()
        let path = folder.path + "/empty.pem"
        try Data("nothing".utf8).write(to: URL(fileURLWithPath: path))
        var configuration = PushConfiguration()
        configuration.certificateFile = path
        #expect(throws: PushConfigurationError.self) {
            _ = try PushSender(configuration, tokens: InMemoryProviderTokenStore(), delegate: Collector())
        }
    }

    @Test func `pushes go through a proxy, with its credentials`() throws {
        let proxy = try ConnectProxy()
        let scene = try Scene { configuration, _ in
            configuration.proxy = .init(
                endpoint: .init(host: "127.0.0.1", port: proxy.port),
                credentials: PushToken("user:pass?>")
            )
        }
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.outcome(2, lane: .fcm) == .accepted)
        // Pushes to both, and what is asked of the token server.
        #expect(proxy.heads.count == 3)
        let expected = Data("user:pass?>".utf8).base64EncodedString()
        for head in proxy.heads {
            #expect(head.hasPrefix("CONNECT localhost:\(scene.standIn.port) HTTP/1.1\r\n"))
            #expect(head.contains("Host: localhost:\(scene.standIn.port)\r\n"))
            #expect(head.contains("Proxy-Authorization: Basic \(expected)\r\n"))
        }
    }

    @Test(arguments: [
        "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "HTTP/1.1 502 x\r\n\r\n", "nonsense\r\n\r\n",
    ])
    func `a proxy that says no is reported, and nothing is spent`(answer: String) throws {
        let proxy = try ConnectProxy(answer: answer)
        let scene = try Scene(time: PhaseTime(speed: 50)) { configuration, _ in
            configuration.proxy = .init(endpoint: .init(host: "127.0.0.1", port: proxy.port))
        }
        #expect(try #require(refusal(scene)).detail?.contains("proxy") == true)
    }

    @Test func `addresses of one host are tried before the connection counts as failed`() throws {
        let addresses = try Address.resolve(host: "localhost", port: 1)
        #expect(!addresses.isEmpty)
        #expect(throws: HTTP2Failure.self) { _ = try Address.resolve(host: "nobody.invalid", port: 1) }
    }
}
