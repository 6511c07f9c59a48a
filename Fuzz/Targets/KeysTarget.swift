@testable import Authentication

/// Keys as files and servers give them: a JWKS, a PEM file, and the numbers of single keys. What is found is loaded and
/// tried on tokens that need it.
final class KeysTarget: FuzzTarget {
    private let tokens = ["HS256", "RS256", "ES256"].map { name in
        let header = Base64URL.encode(#"{"alg":"\#(name)"}"#.utf8)
        let claims = Base64URL.encode(#"{"sub":"x","exp":4000000000}"#.utf8)
        return header + [46] + claims + [46] + Base64URL.encode([UInt8](repeating: 1, count: 64))
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        let bytes = Array(input)
        try attempt { () throws(KeyFailure) in try KeySet(jwks: bytes) }
        try attempt { () throws(KeyFailure) in try KeySet(pem: bytes) }
        func text(_ bytes: some Collection<UInt8>) -> String {
            String(decoding: Base64URL.encode(bytes), as: UTF8.self)
        }
        let (first, second) = (bytes.prefix(bytes.count / 2), bytes.suffix(from: bytes.count / 2))
        let modulus = FuzzKeys.jwks(FuzzKeys.rsaKey(modulus: text(bytes)))
        try attempt { () throws(KeyFailure) in try KeySet(jwks: modulus) }
        let point = FuzzKeys.jwks(FuzzKeys.ecKey(x: text(first), y: text(second)))
        try attempt { () throws(KeyFailure) in try KeySet(jwks: point) }
    }

    private func attempt(_ read: () throws(KeyFailure) -> KeySet) throws(FuzzFinding) {
        guard let keys = keys(read),
            let verifier = try? TokenVerifier(TokenPolicy(), keys: KeyRing(keys), remembering: 1)
        else { return }
        for token in tokens {
            let isBelieved = token.withUnsafeBytes { token in
                do throws(AuthenticationError) {
                    _ = try verifier.verify(token: token, now: FuzzSamples.now)
                    return true
                } catch {
                    _ = error.description
                    return false
                }
            }
            try check(!isBelieved, "a token is believed that nobody signed")
        }
    }

    private func keys(_ read: () throws(KeyFailure) -> KeySet) -> KeySet? {
        do throws(KeyFailure) {
            return try read()
        } catch {
            _ = error.description
            return nil
        }
    }
}
