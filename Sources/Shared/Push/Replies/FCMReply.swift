import JSON

/// A reply of FCM v1: the status, and what its body says if that is JSON.
struct FCMReply: Hashable, Sendable {
    var status: Int
    /// Of the detail `FcmError`.
    var errorCode: String?
    /// Google's canonical code.
    var canonical: String?
    /// Whether it names the registration token as what is not valid.
    var blamesToken = false

    init(status: Int, errorCode: String? = nil, canonical: String? = nil, blamesToken: Bool = false) {
        self.status = status
        self.errorCode = errorCode
        self.canonical = canonical
        self.blamesToken = blamesToken
    }

    init(status: Int, body: [UInt8], _ parser: JSONParser) {
        self.init(status: status)
        body.withUnsafeBytes { bytes in
            guard let root = (try? parser.parse(copying: bytes))?.object,
                let error = ((try? root.member("error")) ?? nil)?.object
            else { return }
            canonical = ((try? error.member("status")) ?? nil)?.string
            let message = ((try? error.member("message")) ?? nil)?.string ?? ""
            blamesToken = message.contains("not a valid FCM registration token")
            guard var details = ((try? error.member("details")) ?? nil)?.array else { return }
            while let detail = details.next() {
                if let object = detail.object { read(object) }
            }
        }
    }

    private mutating func read(_ detail: JSONObject) {
        let type = ((try? detail.member("@type")) ?? nil)?.string ?? ""
        if type.hasSuffix("/google.firebase.fcm.v1.FcmError") {
            errorCode = ((try? detail.member("errorCode")) ?? nil)?.string
        } else if type.hasSuffix("/google.rpc.BadRequest"),
            var violations = ((try? detail.member("fieldViolations")) ?? nil)?.array
        {
            while let violation = violations.next() {
                let field = ((try? violation.object?.member("field")) ?? nil)?.string
                if field == "message.token" { blamesToken = true }
            }
        }
    }

    var verdict: PushVerdict {
        switch status {
        case 200..<300: .accepted
        case 400: blamesToken ? .dead(.invalidRegistration, asOf: nil) : .stop(.requestRefused, isOfTopic: false)
        case 401: .staleCredential
        case 403:
            errorCode == "SENDER_ID_MISMATCH"
                ? .suspect(.senderIDMismatch) : .stop(.credentialRefused, isOfTopic: false)
        case 404:
            errorCode == "UNREGISTERED" ? .dead(.unregistered, asOf: nil) : .stop(.topicRefused, isOfTopic: false)
        case 429, 500..<600: .refused(reconnects: false)
        case 300..<500: .stop(.requestRefused, isOfTopic: false)
        default: .unclear
        }
    }
}
