import Domain
import JSON

/// A reply of APNs: the status, and what its body says if that is JSON.
struct APNsReply: Hashable, Sendable {
    var status: Int
    var reason: String?
    /// Of a 410: since when the token is known not to be valid, in milliseconds since 1970.
    var timestamp: Int64?

    init(status: Int, reason: String? = nil, timestamp: Int64? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
    }

    init(status: Int, body: [UInt8], _ parser: JSONParser) {
        self.init(status: status)
        body.withUnsafeBytes { bytes in
            guard let object = (try? parser.parse(copying: bytes))?.object else { return }
            reason = ((try? object.member("reason")) ?? nil)?.string
            timestamp = ((try? object.member("timestamp")) ?? nil)?.integer
        }
    }

    /// An unknown reason, or none, is decided by the status.
    var verdict: PushVerdict {
        switch status {
        case 200..<300: .accepted
        case 400: badRequest
        case 403: reason == "ExpiredProviderToken" ? .staleCredential : .stop(.credentialRefused, isOfTopic: false)
        case 410: gone
        case 429: reason == "TooManyProviderTokenUpdates" ? .tooManyCredentials : .enoughForNow
        case 500..<600: .refused(reconnects: reason == "Shutdown")
        case 300..<500: .stop(.requestRefused, isOfTopic: false)
        default: .unclear
        }
    }

    private var badRequest: PushVerdict {
        switch reason {
        case "BadDeviceToken": .suspect(.badDeviceToken)
        case "DeviceTokenNotForTopic": .suspect(.deviceTokenNotForTopic)
        case "IdleTimeout": .idle
        case "BadTopic", "MissingTopic", "TopicDisallowed": .stop(.topicRefused, isOfTopic: true)
        default: .stop(.requestRefused, isOfTopic: false)
        }
    }

    /// Without its time a 410 tells nothing of a registration: it may be younger.
    private var gone: PushVerdict {
        guard let timestamp, timestamp > 0 else { return .enoughForNow }
        let (microseconds, overflow) = timestamp.multipliedReportingOverflow(by: 1000)
        let asOf = Instant(microseconds: overflow ? .max : microseconds)
        return .dead(reason == "ExpiredToken" ? .expiredToken : .unregistered, asOf: asOf)
    }
}
