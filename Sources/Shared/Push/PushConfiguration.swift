import Authentication
import HTTPClient

/// Where pushes go and with what. Key material is PEM text, already read from its file.
public struct PushConfiguration: Sendable {
    /// A host and port; the host's name is verified in the server's certificate.
    public struct Endpoint: Hashable, Sendable {
        public var host: String
        public var port: UInt16

        public init(host: String, port: UInt16 = 443) {
            self.host = host
            self.port = port
        }
    }

    public struct APNs: Sendable {
        /// The ten characters that name the signing key.
        public var keyID: String
        public var teamID: String
        /// The `.p8` file's content.
        public var privateKey: [UInt8]
        /// For requests that name no app.
        public var defaultTopic: String
        /// The topics that may be used besides the default; empty: any.
        public var topics: Set<String> = []
        public var production = Endpoint(host: "api.push.apple.com")
        public var sandbox = Endpoint(host: "api.sandbox.push.apple.com")

        public init(keyID: String, teamID: String, privateKey: [UInt8], defaultTopic: String) {
            self.keyID = keyID
            self.teamID = teamID
            self.privateKey = privateKey
            self.defaultTopic = defaultTopic
        }
    }

    public struct FCM: Sendable {
        /// The service account's JSON file, as Google gives it out.
        public var serviceAccount: [UInt8]
        public var endpoint = Endpoint(host: "fcm.googleapis.com")
        /// Where the OAuth token comes from; nil: as the service account says.
        public var tokenURL: String?

        public init(serviceAccount: [UInt8]) {
            self.serviceAccount = serviceAccount
        }
    }

    public struct Proxy: Sendable {
        public var endpoint: Endpoint
        /// `user:password` for `Proxy-Authorization: Basic`.
        public var credentials: PushToken?

        public init(endpoint: Endpoint, credentials: PushToken? = nil) {
            self.endpoint = endpoint
            self.credentials = credentials
        }

        var fetchProxy: FetchProxy {
            let parts = credentials?.text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return FetchProxy(
                host: endpoint.host,
                port: endpoint.port,
                user: parts?.first.map(String.init),
                password: (parts?.count ?? 0) > 1 ? parts?.last.map(String.init) : nil
            )
        }

        var authorization: String? {
            guard let credentials else { return nil }
            return "Basic " + Base64.encode(Array(credentials.text.utf8))
        }
    }

    /// Nil: requests to Apple end as `notConfigured`.
    public var apns: APNs?
    /// Nil: requests to Google end as `notConfigured`.
    public var fcm: FCM?
    /// A PEM file of authorities to trust instead of the system's.
    public var certificateFile: String?
    /// An HTTP proxy, by CONNECT.
    public var proxy: Proxy?
    /// The most requests taken and not ended, over all lanes.
    public var mostUnderWay = 2000
    /// The most streams at once on a connection, where the server allows more.
    public var mostStreams = 1000
    /// The longest wait for an answer to a written push; then its outcome is unknown.
    public var answerMilliseconds = 30_000
    /// An idle connection is asked whether it lives so often.
    public var pingMilliseconds = 60_000
    /// How long a stop waits for answers to what is in flight.
    public var drainMilliseconds = 5000
    /// How long a lane waits at most before it looks at the clock again; for tests, whose clocks run faster.
    var longestPollMilliseconds: Int64 = 60_000

    public init() {}
}

/// Base64 as `Proxy-Authorization` has it.
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String {
        var text = String(decoding: Base64URL.encode(bytes), as: UTF8.self)
        text = String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
        return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    }
}
