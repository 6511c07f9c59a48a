public import Domain

/// What a push server says of a token that it will not serve.
public enum PushReason: String, CaseIterable, Sendable {
    case badDeviceToken = "bad_device_token"
    case deviceTokenNotForTopic = "device_token_not_for_topic"
    case unregistered
    case expiredToken = "expired_token"
    case senderIDMismatch = "sender_id_mismatch"
    /// FCM names the registration token as not valid.
    case invalidRegistration = "invalid_registration"
}

/// How a request ended. Each request that was taken ends exactly once.
public enum PushOutcome: Hashable, Sendable {
    /// The server took it: a wake, to be answered by the phone.
    case accepted
    /// The token is dead: registrations older than `asOf` are to be deactivated, younger ones not.
    case deactivate(PushReason, asOf: Instant)
    /// As `deactivate`, but not to be applied yet: it may be our environment or topic. What becomes of it comes
    /// later by `PushSenderDelegate.release`, or never.
    case held(PushReason)
    /// The server has had enough pushes for this token: it waits for its next spacing.
    case waitsForSpacing
    /// The servers refused it each time, or could not be reached: certainly not processed. Not spent.
    case refused(retryAfter: Duration?)
    /// It may have reached the server: counts for the spacing, not as unanswered, and is never sent again.
    case unknown
    /// It was not sent, or its one try was refused for the cause named: not spent.
    case notSent(Cause)
    /// The server refuses what we ask or who we are: our mistake. Not spent; the alarm says more.
    case failed(PushAlarm.Code)

    public enum Cause: Hashable, Sendable {
        /// `mayStillSend` said no.
        case leaseEnded
        /// The lane or the topic is stopped, until somebody resumes it.
        case stopped(PushAlarm.Code)
        /// The credential is paused, as Apple asked.
        case credentialPaused(until: Instant)
        /// There is no credential right now (the store or the token server can't be reached).
        case noCredential
        /// Not a text that can be a device token.
        case malformedToken
        /// The topic is not among those configured, or there is no credential for this lane.
        case notConfigured
        case shuttingDown
    }

    /// Whether the user must not be woken again within the spacing.
    public var countsForSpacing: Bool {
        switch self {
        case .accepted, .unknown, .waitsForSpacing: true
        case .deactivate, .held, .refused, .notSent, .failed: false
        }
    }

    /// Whether no answer to it is the phone's silence.
    public var expectsAnswer: Bool { self == .accepted }

    /// For metrics and rows.
    public var code: String {
        switch self {
        case .accepted: "accepted"
        case .deactivate(let reason, _), .held(let reason): reason.rawValue
        case .waitsForSpacing: "too_many_requests"
        case .refused: "refused"
        case .unknown: "unknown"
        case .notSent(.leaseEnded): "lease_ended"
        case .notSent(.stopped): "stopped"
        case .notSent(.credentialPaused): "credential_paused"
        case .notSent(.noCredential): "no_credential"
        case .notSent(.malformedToken): "malformed_token"
        case .notSent(.notConfigured): "not_configured"
        case .notSent(.shuttingDown): "shutting_down"
        case .failed: "failed"
        }
    }
}

/// A held deactivation that may now be applied: registrations of that token older than `asOf`.
public struct PushDeactivation: Hashable, Sendable {
    /// The request's id.
    public let id: UInt64
    public let token: PushToken
    public let reason: PushReason
    public let asOf: Instant

    public init(id: UInt64, token: PushToken, reason: PushReason, asOf: Instant) {
        self.id = id
        self.token = token
        self.reason = reason
        self.asOf = asOf
    }
}

/// Something a person has to look at. Holds no token.
public struct PushAlarm: Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, CaseIterable, Sendable {
        /// The server refuses our credential.
        case credentialRefused = "credential_refused"
        /// A new provider token counts as expired: our clock is wrong.
        case clock
        /// Apple saw too many provider tokens; the credential is paused.
        case tooManyProviderTokens = "too_many_provider_tokens"
        /// The server finds our request wrong.
        case requestRefused = "request_refused"
        /// The server finds the topic or the project wrong.
        case topicRefused = "topic_refused"
        /// More than a fifth of the last hour's tokens are bad: the environment or the topic is wrong.
        case tooManyBadTokens = "too_many_bad_tokens"
        /// The token store or the token server can't be reached.
        case noCredential = "no_credential"
        /// The push server can't be reached, or its certificate is not good.
        case unreachable
    }

    public let code: Code
    public let lane: PushLane
    /// Nil where all of the lane is meant.
    public let topic: String?
    /// Whether nothing more is sent there until `resume`.
    public let stops: Bool
    /// What the network said, where it failed.
    public let detail: String?

    public init(_ code: Code, lane: PushLane, topic: String? = nil, stops: Bool, detail: String? = nil) {
        self.detail = detail
        self.code = code
        self.lane = lane
        self.topic = topic
        self.stops = stops
    }

    public var description: String {
        let place = topic.map { "\(lane.rawValue), topic \($0)" } ?? lane.rawValue
        let advice =
            switch code {
            case .credentialRefused: "the credential is refused: check key file, key id and team id, then resume"
            case .clock: "a new provider token counts as expired: set this machine's clock right, then resume"
            case .tooManyProviderTokens: "too many provider tokens were made: check that all workers share one database"
            case .requestRefused: "the server finds the request wrong: look at this build's release notes, then resume"
            case .topicRefused: "the topic is refused: check the app's bundle id and the credential's app, then resume"
            case .tooManyBadTokens:
                "too many tokens are bad, none was deactivated: check environment and topic, then resume"
            case .noCredential: "there is no credential: check the database and the token server"
            case .unreachable: "the server can't be reached: check network, proxy and certificates"
            }
        return "\(place): \(advice)" + (detail.map { " (\($0))" } ?? "")
    }
}
