import Domain
import JSON

/// A token whose signature fitted, with when it holds.
struct VerifiedToken {
    var identity: Identity
    var validity: TokenValidity
}

struct TokenValidity {
    var expires: Instant
    var notBefore: Instant?
}

/// The claims we read, each at most once; others are ignored.
struct TokenClaims {
    private(set) var subject: JSONValue?
    private(set) var issuer: JSONValue?
    private(set) var audience: JSONValue?
    private(set) var expires: JSONValue?
    private(set) var notBefore: JSONValue?
    private(set) var role: JSONValue?
    private(set) var timeZone: JSONValue?
    private(set) var platform: JSONValue?

    init(_ object: JSONObject) throws(AuthenticationError) {
        var object = object
        while let (key, value) = object.next() {
            switch key.count {
            case 3 where key.equals("sub"): try Self.set(&subject, value)
            case 3 where key.equals("iss"): try Self.set(&issuer, value)
            case 3 where key.equals("aud"): try Self.set(&audience, value)
            case 3 where key.equals("exp"): try Self.set(&expires, value)
            case 3 where key.equals("nbf"): try Self.set(&notBefore, value)
            case 4 where key.equals("role"): try Self.set(&role, value)
            case 9 where key.equals("time_zone"): try Self.set(&timeZone, value)
            case 8 where key.equals("platform"): try Self.set(&platform, value)
            default: break
            }
        }
    }

    private static func set(_ claim: inout JSONValue?, _ value: JSONValue) throws(AuthenticationError) {
        guard claim == nil else { throw AuthenticationError(.malformed) }
        claim = value
    }

    func isMeant(for expected: String) -> Bool {
        guard let audience else { return false }
        if let text = audience.text { return text.elementsEqual(expected.utf8) }
        guard var list = audience.array else { return false }
        while let element = list.next() {
            if let text = element.text, text.elementsEqual(expected.utf8) { return true }
        }
        return false
    }

    /// An unknown role, such as another system's own, is an ordinary user's.
    func readIdentity() throws(AuthenticationError) -> Identity {
        let noIssuer = JSONText(start: nil, count: 0)
        guard let text = subject?.text,
            let user = SubjectMapping.user(subject: text.span, issuer: (issuer?.text ?? noIssuer).span)
        else { throw AuthenticationError(.malformed) }
        let zone = timeZone?.text.flatMap { (1...64).contains($0.count) ? String(decoding: $0, as: UTF8.self) : nil }
        return Identity(
            user: user,
            role: role?.string.flatMap(Role.init(rawValue:)) ?? .user,
            timeZone: zone,
            platform: platform?.string.flatMap(Platform.init(rawValue:))
        )
    }

    func readValidity() throws(AuthenticationError) -> TokenValidity {
        guard let expires = try Self.readDate(expires) else { throw AuthenticationError(.malformed) }
        return TokenValidity(expires: expires, notBefore: try Self.readDate(notBefore))
    }

    /// Seconds since 1970, maybe with a fraction; nil if the claim is missing.
    private static func readDate(_ claim: JSONValue?) throws(AuthenticationError) -> Instant? {
        guard let claim, !claim.isNull else { return nil }
        // Up to the year 9999; what lies beyond means the same.
        guard let seconds = claim.double, seconds >= 0 else { throw AuthenticationError(.malformed) }
        return Instant(microseconds: Int64(min(seconds, 253_402_300_799) * 1_000_000))
    }
}
