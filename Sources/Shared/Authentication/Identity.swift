public import Domain

/// What the bearer of a token may do.
public enum Role: String, Sendable, Hashable, CaseIterable {
    /// Writes their own days.
    case user
    /// Writes cloud sources for any user.
    case connector
    case `operator`
}

/// The kind of phone that an app runs on.
public enum Platform: String, Sendable, Hashable {
    case ios
    case android
}

/// Who sent a request, as a verified token says.
public struct Identity: Sendable, Hashable {
    public let user: UserID
    public let role: Role
    /// The claim `time_zone`, unchecked; nil if it is missing or can't be a zone's name.
    public let timeZone: String?
    public let platform: Platform?

    public init(user: UserID, role: Role = .user, timeZone: String? = nil, platform: Platform? = nil) {
        self.user = user
        self.role = role
        self.timeZone = timeZone
        self.platform = platform
    }
}

/// Why a request is not let in. Says nothing of the token and never which key was tried.
public struct AuthenticationError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        case missing, malformed, expired
        case notYetValid = "not_yet_valid"
        case badSignature = "bad_signature"
        case wrongIssuer = "wrong_issuer"
        case wrongAudience = "wrong_audience"
    }

    public let code: Code

    public init(_ code: Code) {
        self.code = code
    }

    public var description: String {
        switch code {
        case .missing: "There is no token: send the header Authorization: Bearer and the token."
        case .malformed: "This is not a token we read: send a signed JWT with the claims sub and exp."
        case .expired: "The token has expired: get a new one."
        case .notYetValid: "The token is not valid yet: check the clock of whoever made it."
        case .badSignature: "The token's signature does not fit: have it signed by the issuer this service trusts."
        case .wrongIssuer: "The token is of another issuer: get one from the issuer this service trusts."
        case .wrongAudience: "The token is for another audience: get one for this service."
        }
    }
}
