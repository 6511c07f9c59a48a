import HTTP2
import ServiceRuntime
import Synchronization

/// A stand-in for APNs and FCM: HTTP/2 over TLS on 127.0.0.1, with replies by script. For development and tests alone.
///
/// It answers pushes of both kinds and, as Google's token server, `POST /token`.
public final class PushStandIn: Sendable {
    public struct Options: Sendable {
        /// 0 takes a free one.
        public var port: UInt16 = 0
        public var mostStreams: UInt32 = 1000
        /// False: does not agree on HTTP/2.
        public var speaksHTTP2 = true
        /// Of the certificate.
        public var names = "DNS:localhost,IP:127.0.0.1"
        /// A script in JSON, read again whenever it has changed; until there is a good one, the one given holds.
        public var scriptFile: String?
        /// Gets a line of JSON for each request: token, path, headers (credentials masked), body, status.
        public var recordFile: String?

        public init() {}
    }

    /// Why there is no stand-in.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        public let description: String
    }

    public let port: UInt16
    /// The PEM file of its authority, for clients.
    public let authorityFile: String
    private let shared: StandInShared
    private let thread: WorkerThread

    /// Starts it.
    ///
    /// - Parameters:
    ///   - folder: exists; the certificates are written there.
    ///   - script: what to answer.
    ///   - options: of server and certificate.
    /// - Throws: what could not be had.
    public init(
        folder: String,
        script: StandInScript = StandInScript(),
        options: Options = Options()
    ) throws(Failure) {
        guard let made = DevelopmentKeys.certificates(for: options.names) else {
            throw Failure(description: "OpenSSL makes no certificate: check the package libssl3")
        }
        let (certificate, key) = ("\(folder)/stand-in-certificate.pem", "\(folder)/stand-in-key.pem")
        authorityFile = "\(folder)/stand-in-authority.pem"
        guard SmallFile.write(authorityFile, made.authority), SmallFile.write(certificate, made.certificate),
            SmallFile.write(key, made.privateKey)
        else { throw Failure(description: "the folder can't be written to: name one that exists") }
        let shared = StandInShared(script, options)
        self.shared = shared
        do {
            let context = try TLSContext.server(
                certificate: certificate,
                privateKey: key,
                speaksHTTP2: options.speaksHTTP2
            )
            let listener = try LoopbackListener(port: options.port)
            port = listener.port
            // Handed over: the thread alone uses it from here on.
            nonisolated(unsafe) let handedOver = listener
            thread = try WorkerThread.spawn(name: "push-stand-in") {
                StandInLoop(handedOver, context, shared).run()
            }
        } catch {
            throw Failure(description: "\(error)")
        }
    }

    deinit { shared.stop() }

    /// All requests so far, in the order of arrival.
    public var received: [StandInRequest] { shared.log.all }

    /// Waits for so many requests (of pushes, not of tokens); false if the time was over first.
    public func wait(forRequests count: Int, milliseconds: Int = 10_000) -> Bool {
        shared.log.wait(for: count, milliseconds: milliseconds)
    }

    /// Replaces the script; each token begins with its first reply.
    public func use(_ script: StandInScript) { shared.use(script) }

    /// How many connections were taken so far.
    public var connections: Int { shared.connections.load(ordering: .acquiring) }

    /// Says and reads nothing more, with all connections open, until `stop`.
    public func freeze() {
        shared.isFrozen.store(true, ordering: .releasing)
        shared.wake.signal()
        shared.frozen.wait(milliseconds: 10_000)
    }

    public func stop() {
        shared.stop()
        thread.join()
    }
}
