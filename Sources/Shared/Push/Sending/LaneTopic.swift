import HTTP2

/// What a lane knows of one topic (of FCM: of one app): found once for each push, and used at each step of it.
/// One thread's.
final class LaneTopic {
    let name: String
    /// Whether it is a text that can be a header, and among those configured.
    let isUsable: Bool
    var breaker = DeactivationBreaker()
    private var headers: (credential: Int, expiration: Int64, headers: RequestHeaders)?

    init(_ name: String, isUsable: Bool) {
        self.name = name
        self.isUsable = isUsable
    }

    /// The headers that its requests share: all but the path, as long as credential and expiration stay the same. A
    /// round of claims has one expiration, so the compression tables hold these headers for all of it.
    func headers(
        _ credential: Credential,
        expiration: Int64,
        _ make: () -> [RequestHeaders.Field]
    ) -> RequestHeaders {
        if let held = headers, held.credential == credential.generation, held.expiration == expiration {
            return held.headers
        }
        let made = RequestHeaders(make())
        headers = (credential.generation, expiration, made)
        return made
    }
}
