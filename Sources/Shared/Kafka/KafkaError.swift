/// What went wrong at the Kafka edge: never holds a key, value, header or secret.
public struct KafkaError: Error, Sendable, Equatable {
    /// librdkafka's number: negative for its own errors, positive for the broker's.
    public let code: Int32
    /// librdkafka's name of the code, for example `_MSG_TIMED_OUT` or `TOPIC_AUTHORIZATION_FAILED`.
    public let name: String
    /// What happened, with what the library added (an address, a topic), without a full stop at the end.
    public let reason: String
    /// The client is of no more use: close it and make a new one.
    public let isFatal: Bool

    public init(code: Int32, name: String, reason: String, isFatal: Bool = false) {
        self.code = code
        self.name = name
        self.reason = reason
        self.isFatal = isFatal
    }

    /// The codes that callers tell apart.
    public enum Code {
        public static let partitionAtEnd: Int32 = -191
        public static let messageTimedOut: Int32 = -192
        public static let transport: Int32 = -195
        public static let resolve: Int32 = -193
        public static let unknownPartition: Int32 = -190
        public static let unknownTopic: Int32 = -188
        public static let allBrokersDown: Int32 = -187
        public static let invalidArgument: Int32 = -186
        public static let timedOut: Int32 = -185
        public static let queueFull: Int32 = -184
        public static let sslFailed: Int32 = -181
        public static let state: Int32 = -172
        public static let authentication: Int32 = -169
        public static let noOffset: Int32 = -168
        public static let unsupportedFeature: Int32 = -165
        public static let purgedInQueue: Int32 = -152
        public static let purgedInFlight: Int32 = -151
        public static let fatal: Int32 = -150
        public static let maxPollExceeded: Int32 = -147
        public static let autoOffsetReset: Int32 = -140
        public static let offsetOutOfRange: Int32 = 1
        public static let unknownTopicOrPartition: Int32 = 3
        public static let requestTimedOut: Int32 = 7
        public static let messageTooLarge: Int32 = 10
        public static let recordListTooLarge: Int32 = 18
        public static let notEnoughReplicas: Int32 = 19
        public static let notEnoughReplicasAfterAppend: Int32 = 20
        public static let illegalGeneration: Int32 = 22
        public static let topicAuthorization: Int32 = 29
        public static let groupAuthorization: Int32 = 30
        public static let clusterAuthorization: Int32 = 31
        public static let topicAlreadyExists: Int32 = 36
        public static let saslAuthentication: Int32 = 58
    }

    /// The local queue is full: nothing was taken, try again when reports have been drained.
    public var isQueueFull: Bool { code == Code.queueFull }

    /// The record is larger than the client or the broker takes; sending it again cannot help.
    public var isRecordTooLarge: Bool { code == Code.messageTooLarge || code == Code.recordListTooLarge }

    /// The broker's log does not hold the offset that was asked for.
    public var isOffsetOutOfRange: Bool { code == Code.offsetOutOfRange || code == Code.autoOffsetReset }

    /// The topic or partition does not exist (or this client may not see it).
    public var isUnknownTopic: Bool {
        [Code.unknownTopicOrPartition, Code.unknownTopic, Code.unknownPartition].contains(code)
    }

    /// The cluster, or this client, cannot do what was asked at all.
    public var isUnsupported: Bool { code == Code.unsupportedFeature || code == 35 }

    /// The same call can succeed later without anybody changing anything.
    public var isRetriable: Bool {
        if isFatal { return false }
        switch code {
        case Code.queueFull, Code.messageTimedOut, Code.transport, Code.resolve, Code.allBrokersDown, Code.timedOut,
            Code.maxPollExceeded, Code.purgedInQueue, Code.purgedInFlight, Code.illegalGeneration,
            Code.notEnoughReplicas, Code.notEnoughReplicasAfterAppend, Code.requestTimedOut:
            return true
        case 5, 6, 8, 9, 13, 14, 15, 16, 25, 27, 41, 51, 56, 72, 74, 75, 77, 78, 80:
            // Leader, coordinator, broker or log that is moving, loading or away; a rebalance that is under way.
            return true
        default:
            return false
        }
    }

    /// What the reader can do about it.
    public var nextStep: String {
        if isFatal { return "Make a new client; the cause is in the log lines before this one." }
        switch code {
        case Code.queueFull:
            return "Answer 503 and drain delivery reports; raise queue.buffering.max.messages if it happens often."
        case Code.messageTimedOut, Code.transport, Code.allBrokersDown, Code.timedOut, Code.resolve,
            Code.requestTimedOut:
            return "Check that the brokers run and can be reached under the configured addresses."
        case Code.unknownTopicOrPartition, Code.unknownTopic, Code.unknownPartition:
            return "Create the topic (daybook migrate does), or check its name and this client's ACLs."
        case Code.messageTooLarge, Code.recordListTooLarge:
            return "Send smaller records, or raise message.max.bytes here and max.message.bytes of the topic."
        case Code.notEnoughReplicas, Code.notEnoughReplicasAfterAppend:
            return "Bring the missing brokers back: fewer replicas are in sync than min.insync.replicas asks for."
        case Code.offsetOutOfRange, Code.autoOffsetReset:
            return "Choose an offset between the log's start and end."
        case Code.authentication, Code.saslAuthentication, Code.sslFailed:
            return "Check the security.protocol, sasl.* and ssl.* properties."
        case Code.topicAuthorization, Code.groupAuthorization, Code.clusterAuthorization:
            return "Grant this client's principal the ACLs that the documentation lists."
        case Code.maxPollExceeded:
            return "Make batches smaller or raise max.poll.interval.ms."
        case Code.unsupportedFeature:
            return "This cluster cannot do it: use a newer broker, or do without."
        case Code.invalidArgument:
            return "Correct the named property or argument."
        default:
            return isRetriable ? "Try again shortly." : "Look the code up in librdkafka's list of errors."
        }
    }

    /// One line for people: name, reason, next step.
    public var message: String { "\(reason) (\(name)). \(nextStep)" }
}

extension KafkaError: CustomStringConvertible {
    public var description: String { message }
}
