import JSON

/// What a stand-in answers: for each device token a list of replies, used one after the other; the last one stays.
public struct StandInScript: Sendable {
    public struct Reply: Hashable, Sendable {
        public enum Action: Hashable, Sendable {
            case answer
            /// RST_STREAM with REFUSED_STREAM: not processed.
            case refuse
            /// RST_STREAM with INTERNAL_ERROR.
            case reset
            /// Closes the connection without an answer.
            case close
            /// Answers, then closes the connection.
            case answerAndClose
            /// GOAWAY whose last stream is the one before this: this one was not processed.
            case goAwayBefore
            /// GOAWAY whose last stream is this one; then the answer.
            case goAwayAfter
            /// Never says anything.
            case silence
        }

        public var action = Action.answer
        public var status = 200
        public var reason: String?
        /// Milliseconds since 1970.
        public var timestamp: Int64?
        public var retryAfter: String?
        /// Instead of the JSON that `reason` and `timestamp` make.
        public var body: String?
        public var delayMilliseconds = 0
        /// Waits until so many requests wait like this, then answers all of them.
        public var gate = 0
        /// How many requests it serves before the next reply has its turn.
        public var times = 1

        public init(_ status: Int = 200, _ reason: String? = nil) {
            self.status = status
            self.reason = reason
        }

        public init(_ action: Action) {
            self.action = action
        }

        /// The same with changes.
        public func with(_ change: (inout Reply) -> Void) -> Reply {
            var copy = self
            change(&copy)
            return copy
        }
    }

    /// For tokens without replies of their own.
    public var others: [Reply]
    public var tokens: [String: [Reply]]

    public init(others: [Reply] = [Reply()], tokens: [String: [Reply]] = [:]) {
        self.others = others
        self.tokens = tokens
    }

    /// Reads a script: `{"others":[REPLY…],"tokens":{"TOKEN":[REPLY…]}}`, where a REPLY has the members of `Reply` in
    /// snake case, all optional. Nil if it is not one.
    public init?(json: [UInt8]) {
        guard let parser = try? JSONParser(maximumDepth: 8) else { return nil }
        let script = json.withUnsafeBytes { bytes -> StandInScript? in
            guard let root = (try? parser.parse(copying: bytes))?.object else { return nil }
            var script = StandInScript()
            if let others = (try? root.member("others")) ?? nil {
                guard let replies = Reply.list(others) else { return nil }
                script.others = replies
            }
            if let tokens = (try? root.member("tokens")) ?? nil {
                guard var members = tokens.object else { return nil }
                while let (token, value) = members.next() {
                    guard let replies = Reply.list(value) else { return nil }
                    script.tokens[String(decoding: token, as: UTF8.self)] = replies
                }
            }
            return script
        }
        guard let script else { return nil }
        self = script
    }
}

extension StandInScript.Reply {
    private static let actions: [String: Action] = [
        "answer": .answer, "refuse": .refuse, "reset": .reset, "close": .close, "answer_and_close": .answerAndClose,
        "goaway_before": .goAwayBefore, "goaway_after": .goAwayAfter, "silence": .silence,
    ]

    /// At least one.
    fileprivate static func list(_ value: JSONValue) -> [Self]? {
        guard var elements = value.array else { return nil }
        var replies: [Self] = []
        while let element = elements.next() {
            guard let reply = element.object.flatMap(read) else { return nil }
            replies.append(reply)
        }
        return replies.isEmpty ? nil : replies
    }

    private static func read(_ object: JSONObject) -> Self? {
        var object = object
        var reply = Self()
        while let (key, value) = object.next() {
            switch String(decoding: key, as: UTF8.self) {
            case "action":
                guard let action = value.string.flatMap({ actions[$0] }) else { return nil }
                reply.action = action
            case "status":
                guard let status = value.integer, (100...999).contains(status) else { return nil }
                reply.status = Int(status)
            case "reason": reply.reason = value.string
            case "timestamp": reply.timestamp = value.integer
            case "retry_after": reply.retryAfter = value.string
            case "body": reply.body = value.string
            case "delay_ms": reply.delayMilliseconds = Int(clamping: max(0, value.integer ?? 0))
            case "gate": reply.gate = Int(clamping: max(0, value.integer ?? 0))
            case "times": reply.times = Int(clamping: max(1, value.integer ?? 1))
            default: return nil
            }
        }
        return reply
    }

    var bodyBytes: [UInt8] {
        if let body { return Array(body.utf8) }
        guard reason != nil || timestamp != nil else { return [] }
        var writer = JSONWriter()
        writer.beginObject()
        if let reason {
            writer.key("reason")
            writer.string(reason)
        }
        if let timestamp {
            writer.key("timestamp")
            writer.integer(timestamp)
        }
        writer.endObject()
        return writer.bytes
    }
}

/// Where each token's list of replies stands.
struct ScriptProgress {
    private var script: StandInScript
    private var served: [String: Int] = [:]

    init(_ script: StandInScript) {
        self.script = script
    }

    mutating func next(_ token: String) -> StandInScript.Reply {
        let own = script.tokens[token]
        let list = own ?? script.others
        let key = own == nil ? "" : token
        var left = served[key, default: 0]
        served[key] = left == .max ? left : left + 1
        for reply in list {
            if left < reply.times { return reply }
            left -= reply.times
        }
        return list.last ?? StandInScript.Reply()
    }
}
