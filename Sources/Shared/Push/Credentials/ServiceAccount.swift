import Domain
import HTTPClient
import JSON

/// What Google's JSON file of a service account says.
struct ServiceAccount: Sendable {
    let projectID: String
    let clientEmail: String
    let privateKeyID: String?
    let privateKey: [UInt8]
    let tokenURL: FetchURL
    /// The text of `tokenURL`, which the assertion names as its audience.
    let audience: String

    init(json: [UInt8], tokenURL override: String?) throws(PushConfigurationError) {
        guard let parser = try? JSONParser(maximumDepth: 4) else { throw PushConfigurationError(.memory) }
        let texts = json.withUnsafeBytes { bytes -> [String?]? in
            guard let object = (try? parser.parse(copying: bytes))?.object else { return nil }
            let members: [StaticString] = ["project_id", "client_email", "private_key", "private_key_id", "token_uri"]
            return members.map { ((try? object.member($0)) ?? nil)?.string }
        }
        guard let texts, let project = texts[0], let email = texts[1], let key = texts[2], Self.isProject(project)
        else { throw PushConfigurationError(.serviceAccount) }
        audience = texts[4] ?? "https://oauth2.googleapis.com/token"
        guard let url = FetchURL(override ?? audience) else { throw PushConfigurationError(.tokenURL) }
        projectID = project
        clientEmail = email
        privateKey = Array(key.utf8)
        privateKeyID = texts[3]
        tokenURL = url
    }

    /// It becomes a part of a path.
    private static func isProject(_ text: String) -> Bool {
        (1...63).contains(text.utf8.count)
            && text.utf8.allSatisfy { (48...57).contains($0) || (97...122).contains($0) || $0 == UInt8(ascii: "-") }
    }

    /// The claims of the assertion that an access token is asked for with.
    func claims(now: Instant) -> [UInt8] {
        let seconds = now.microseconds / 1_000_000
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("iss")
        writer.string(clientEmail)
        writer.key("scope")
        writer.string("https://www.googleapis.com/auth/firebase.messaging" as StaticString)
        writer.key("aud")
        writer.string(audience)
        writer.key("iat")
        writer.integer(seconds)
        writer.key("exp")
        writer.integer(seconds + 3600)
        writer.endObject()
        return writer.bytes
    }
}

/// Why pushes can't be set up. Says nothing of keys.
public struct PushConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable {
        case apnsKey = "apns_key"
        case apnsNames = "apns_names"
        case serviceAccount = "service_account"
        case serviceAccountKey = "service_account_key"
        case tokenURL = "token_url"
        case certificates
        case threads
        case memory
    }

    public let code: Code

    init(_ code: Code) {
        self.code = code
    }

    public var description: String {
        switch code {
        case .apnsKey: "The signing key for Apple is no P-256 key in PEM: give the .p8 file as Apple gave it out."
        case .apnsNames: "Key id and team id have ten letters or digits, a topic is a bundle id: check them."
        case .serviceAccount:
            "The service account for Google is not readable: give the JSON file as Google gave it out."
        case .serviceAccountKey: "The service account holds no RSA key: give the JSON file as Google gave it out."
        case .tokenURL: "The token server's URL is not taken: use https://, or http:// with a host of this machine."
        case .certificates: "The file of authorities holds none: give certificates in PEM."
        case .threads: "No thread could be started: raise the limit on threads."
        case .memory: "There was no memory: give the process more."
        }
    }
}
