/// Why keys can't be used. Says nothing of the keys, and never what stood in a document.
public struct KeyFailure: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable {
        case noKeys = "no_keys"
        case shortSecret = "short_secret"
        case tooManyKeys = "too_many_keys"
        case unsupportedKey = "unsupported_key"
        case privateKey = "private_key"
        case noPrivateKey = "no_private_key"
        case brokenPEM = "broken_pem"
        case brokenJWKS = "broken_jwks"
        case cannotRead = "cannot_read"
        case cannotFetch = "cannot_fetch"
        case wrongURL = "wrong_url"
        case library = "openssl"
    }

    public let code: Code
    /// More about `cannotFetch`; a fixed text of the client's.
    let detail: String?

    init(_ code: Code, detail: String? = nil) {
        self.code = code
        self.detail = detail
    }

    public var description: String {
        switch code {
        case .noKeys: "There is no key for tokens in it: give a secret, a public key, a certificate or a JWKS."
        case .shortSecret: "The key for tokens is too short: use at least 32 random bytes."
        case .tooManyKeys:
            "It holds more than \(KeySet.mostPerAlgorithm) keys of one algorithm: leave out the old ones."
        case .unsupportedKey: "It holds a key that is not taken: use RSA of 2048 to 8192 bits, or EC P-256."
        case .privateKey: "It holds a private key, which has no business here: give the public key alone."
        case .noPrivateKey: "It is no private key in PEM without a password: give one, RSA or EC P-256."
        case .brokenPEM: "Its PEM is broken or cut off: write the file anew, under another name, and rename it."
        case .brokenJWKS: "It is not a JWKS: a JSON object whose member keys lists JSON Web Keys."
        case .cannotRead: "The file can't be read, or is longer than a mebibyte: check its path and permissions."
        case .cannotFetch:
            "It could not be fetched (\(detail ?? "no reason given")): check the address and the network."
        case .wrongURL: "This URL is not fetched: use https://, or http:// with a host of this machine alone."
        case .library: "OpenSSL could not set the key up: check the installation of libssl3."
        }
    }
}
