import Domain
import Testing

@testable import Authentication

let testNow = Instant(rfc3339: "2026-09-02T12:00:00Z") ?? .earliest
let testUser = "01234567-89ab-4def-8123-456789abcdef"

extension TokenVerifier {
    /// Nil for an accepted token, else the code of its refusal.
    func code(_ token: String, now: Instant = testNow) -> AuthenticationError.Code? {
        Array(token.utf8).withUnsafeBytes { bytes in
            do throws(AuthenticationError) {
                _ = try verify(token: bytes, now: now)
                return nil
            } catch {
                return error.code
            }
        }
    }
}

func verifier(_ keys: KeySet...) throws -> TokenVerifier {
    try TokenVerifier(TokenPolicy(), keys: KeyRing(KeySet(joining: keys)))
}

func pem(_ texts: String...) throws -> KeySet {
    try KeySet(pem: Array(texts.joined(separator: "\n").utf8))
}

func minter(_ privateKey: String, kid: String? = nil) throws -> TokenMinter {
    try TokenMinter(privateKey: Array(privateKey.utf8), keyID: kid, TokenPolicy())
}

func token(_ privateKey: String, kid: String? = nil, subject: String = testUser) throws -> String {
    try minter(privateKey, kid: kid).mint(subject: subject, now: testNow, validFor: 60)
}

/// A token with a header of the test's choice.
func token(_ privateKey: String, header: String) throws -> String {
    try minter(privateKey).sign(header: header, claims: Array(#"{"sub":"x","exp":4000000000}"#.utf8))
}

func failure(_ body: () throws -> KeySet) -> KeyFailure.Code? {
    do {
        _ = try body()
        return nil
    } catch {
        return (error as? KeyFailure)?.code
    }
}
