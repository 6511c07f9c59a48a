import Domain
import Testing

@testable import Authentication

struct KeySetTests {
    @Test func `PEM gives the keys of its public keys and certificates, and not those that vouch for them`() throws {
        let both = try pem(TestKeys.rsaAPublic, TestKeys.ecAPublic)
        #expect(both.count(of: .rs256) == 1 && both.count(of: .es256) == 1 && both.count(of: .hs256) == 0)
        let chain = try pem(TestKeys.leafCertificate, TestKeys.authorityCertificate)
        #expect(try verifier(chain).code(token(TestKeys.ecAPrivate)) == nil)
        #expect(try verifier(chain).code(token(TestKeys.ecBPrivate)) == .badSignature)
        // One that issued itself, alone, is a key.
        #expect(try verifier(pem(TestKeys.authorityCertificate)).code(token(TestKeys.ecBPrivate)) == nil)
        #expect(try pem(TestKeys.ecAPublic, TestKeys.ecAPublic).count(of: .es256) == 1)
    }

    @Test func `PEM with anything that is not taken is refused as a whole`() {
        #expect(failure { try pem("") } == .noKeys)
        #expect(failure { try pem("no PEM") } == .noKeys)
        #expect(failure { try pem(TestKeys.ecAPublic, TestKeys.ecAPrivate) } == .privateKey)
        #expect(failure { try pem(TestKeys.lockedPrivate) } == .privateKey)
        for key in [TestKeys.rsa1024Public, TestKeys.p384Public, TestKeys.ed25519Public] {
            #expect(failure { try pem(TestKeys.ecAPublic, key) } == .unsupportedKey)
        }
        #expect(failure { try pem(TestKeys.ecAPublic, String(TestKeys.rsaAPublic.dropLast(40))) } == .brokenPEM)
        #expect(failure { try pem(TestKeys.ecAPublic.replacing("M", with: "!")) } == .brokenPEM)
        let other = TestKeys.ecAPublic.replacing("PUBLIC KEY", with: "SOMETHING")
        #expect(failure { try pem(other) } == .unsupportedKey)
        #expect(failure { try pem(TestKeys.ecAPublic.replacing("PUBLIC KEY", with: "CERTIFICATE")) } == .unsupportedKey)
        #expect(throws: TokenPolicy.Failure.self) { try minter(TestKeys.lockedPrivate) }
        #expect(throws: TokenPolicy.Failure.self) { try minter(TestKeys.ecAPublic) }
    }

    @Test(arguments: [
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","alg":"RS512""#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","alg":"PS256""#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","alg":"HS256""#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","use":"enc""#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","use":7"#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","key_ops":["sign"]"#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","key_ops":"verify""#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, more: #","d":"AQAB""#),
        TestKeys.rsaKey(TestKeys.rsa1024Modulus), TestKeys.rsaKey("AQAB"), TestKeys.rsaKey(""), TestKeys.rsaKey("!"),
        TestKeys.rsaKey(TestKeys.rsaAModulus).replacing("AQAB", with: "AQ"),
        TestKeys.rsaKey(TestKeys.rsaAModulus).replacing("AQAB", with: "AQAA"),
        TestKeys.rsaKey(TestKeys.rsaAModulus).replacing(#""n""#, with: #""m""#),
        TestKeys.rsaKey(TestKeys.rsaAModulus, kid: String(repeating: "k", count: 257)),
        TestKeys.ecKey(TestKeys.ecAPoint, more: #","alg":"ES384""#),
        TestKeys.ecKey(TestKeys.p384Point, curve: "P-384"), TestKeys.ecKey(TestKeys.ecAPoint, curve: "secp256k1"),
        TestKeys.ecKey((x: TestKeys.ecAPoint.x, y: TestKeys.ecBPoint.y)),
        TestKeys.ecKey((x: TestKeys.ecAPoint.x, y: "AA")),
        #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        #"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#,
        #"{"kty":7}"#, "{}",
    ])
    func `a JWK that is not for us is passed over`(key: String) throws {
        #expect(failure { try KeySet(jwks: TestKeys.jwks(key)) } == .noKeys)
        let good = TestKeys.ecKey(TestKeys.ecBPoint, more: #","use":"sig","alg":"ES256","key_ops":["verify"]"#)
        #expect(try KeySet(jwks: TestKeys.jwks(key, good)).keys.count == 1)
    }

    @Test func `a secret stands in a JWKS of a file alone`() throws {
        func secret(_ text: String, _ more: String = "") -> [UInt8] {
            TestKeys.jwks(
                #"{"kty":"oct","k":"\#(String(decoding: Base64URL.encode(text.utf8), as: UTF8.self))"\#(more)}"#
            )
        }
        let text = "0123456789abcdef0123456789abcdef"
        #expect(try KeySet(jwks: secret(text), allowsSecrets: true) == KeySet(secrets: [Array(text.utf8)]))
        #expect(failure { try KeySet(jwks: secret(text)) } == .noKeys)
        #expect(failure { try KeySet(jwks: secret("short"), allowsSecrets: true) } == .noKeys)
        #expect(failure { try KeySet(jwks: secret(text, #","alg":"HS512""#), allowsSecrets: true) } == .noKeys)
    }

    @Test(arguments: [
        "", "x", "[]", "{}", #"{"keys":7}"#, #"{"keys":[7]}"#, #"{"keys":[],"keys":[]}"#,
        #"{"keys":[{"kty":"EC","kty":"RSA"}]}"#, #"{"keys":[{"kty":"EC"}]"#,
    ])
    func `what is no JWKS is refused`(text: String) {
        #expect(failure { try KeySet(jwks: Array(text.utf8)) } == .brokenJWKS)
    }

    @Test func `there is a limit on keys, and a set never prints them`() throws {
        var keys: [String] = []
        for number in 0..<17 { keys.append(TestKeys.ecKey(TestKeys.ecAPoint, kid: "\(number)")) }
        let text = #"{"keys":[\#(keys.joined(separator: ","))]}"#
        #expect(failure { try KeySet(jwks: Array(text.utf8)) } == .tooManyKeys)
        let set = try KeySet(secrets: [Array("0123456789abcdef0123456789abcdef".utf8)])
        var dumped = ""
        dump(set, to: &dumped)
        #expect("\(set)" == "KeySet(1 keys)" && !dumped.contains("48"))
    }
}

struct KeyIDTests {
    private let named = TestKeys.jwks(
        TestKeys.ecKey(TestKeys.ecAPoint, kid: "a"),
        TestKeys.ecKey(TestKeys.ecBPoint, kid: "b")
    )

    @Test func `a kid selects its key alone`() throws {
        let verifier = try verifier(KeySet(jwks: named))
        #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "a")) == nil)
        #expect(try verifier.code(token(TestKeys.ecBPrivate, kid: "b")) == nil)
        #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "b")) == .badSignature)
        #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "c")) == .badSignature)
    }

    @Test func `without a kid all keys of the algorithm are tried`() throws {
        let verifier = try verifier(KeySet(jwks: named), pem(TestKeys.rsaAPublic))
        for key in [TestKeys.ecAPrivate, TestKeys.ecBPrivate, TestKeys.rsaAPrivate] {
            #expect(try verifier.code(token(key)) == nil)
        }
        #expect(try verifier.code(token(TestKeys.rsaBPrivate)) == .badSignature)
    }

    @Test func `a key without a kid is tried for a kid that no key has`() throws {
        let verifier = try verifier(KeySet(jwks: named), pem(TestKeys.rsaAPublic))
        #expect(try verifier.code(token(TestKeys.rsaAPrivate, kid: "anything")) == nil)
        #expect(try verifier.code(token(TestKeys.rsaAPrivate, kid: "a")) == nil)
    }

    @Test func `a kid of two types selects by the algorithm`() throws {
        let keys = TestKeys.jwks(
            TestKeys.ecKey(TestKeys.ecAPoint, kid: "x"),
            TestKeys.rsaKey(TestKeys.rsaAModulus, kid: "x")
        )
        let verifier = try verifier(KeySet(jwks: keys))
        #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "x")) == nil)
        #expect(try verifier.code(token(TestKeys.rsaAPrivate, kid: "x")) == nil)
    }

    @Test(arguments: [
        #""kid":7"#, #""kid":null"#, #""kid":"a","kid":"a""#, "\"kid\":\"\(String(repeating: "k", count: 257))\"",
        #""crit":["b64"],"b64":false"#,
    ])
    func `a header that can't be understood is malformed`(member: String) throws {
        let verifier = try verifier(KeySet(jwks: named))
        #expect(try verifier.code(token(TestKeys.ecAPrivate, header: #"{"alg":"ES256",\#(member)}"#)) == .malformed)
    }

    @Test func `only an unknown kid asks for new keys, and once`() throws {
        let ring = try KeyRing(KeySet(jwks: named))
        let verifier = try TokenVerifier(TokenPolicy(), keys: ring)
        #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "b")) == .badSignature)
        #expect(try verifier.code(token(TestKeys.rsaAPrivate)) == .badSignature)
        #expect(try verifier.code(token(TestKeys.ecAPrivate, header: #"{"alg":"HS256","kid":"z"}"#)) == .badSignature)
        #expect(try verifier.code(token(TestKeys.ecAPrivate, header: #"{"alg":"RS512","kid":"z"}"#)) == .badSignature)
        #expect(!ring.hasUnknownKey)
        #expect(try verifier.code(token(TestKeys.rsaAPrivate, kid: "z")) == .badSignature)
        #expect(ring.hasUnknownKey)
    }

    @Test func `a withdrawn key's tokens are refused at once, remembered or not`() throws {
        let ring = try KeyRing(KeySet(jwks: named))
        let verifier = try TokenVerifier(TokenPolicy(), keys: ring)
        let (first, second) = try (token(TestKeys.ecAPrivate, kid: "a"), token(TestKeys.ecBPrivate, kid: "b"))
        for _ in 0..<2 { #expect(verifier.code(first) == nil && verifier.code(second) == nil) }
        #expect(try !ring.replace(KeySet(jwks: named)))
        #expect(try ring.replace(KeySet(jwks: TestKeys.jwks(TestKeys.ecKey(TestKeys.ecBPoint, kid: "b")))))
        for _ in 0..<2 { #expect(verifier.code(first) == .badSignature && verifier.code(second) == nil) }
        #expect(ring.replace(KeySet()))
        #expect(verifier.code(second) == .badSignature)
        ring.replace(try KeySet(jwks: named))
        #expect(verifier.code(first) == nil && verifier.code(second) == nil)
    }

    @Test func `an expired token leaves the cache and stays refused`() throws {
        let verifier = try verifier(pem(TestKeys.ecAPublic))
        let text = try token(TestKeys.ecAPrivate)
        #expect(verifier.code(text) == nil)
        for _ in 0..<2 { #expect(verifier.code(text, now: testNow.advanced(bySeconds: 91)) == .expired) }
        #expect(verifier.code(text) == nil)
    }
}
