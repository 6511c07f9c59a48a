import Domain
import ServiceRuntime
import Testing

@testable import Authentication

/// RFC 7515, appendix A: the payload has no subject, so a signature that fits ends in `malformed`.
private let payload =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
private let rsaToken =
    "eyJhbGciOiJSUzI1NiJ9.\(payload).cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0"
    + "Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
    + "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY"
    + "9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
private let ecToken =
    "eyJhbGciOiJFUzI1NiJ9.\(payload).DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP"
    + "3-Kg6NU1Q"
private let rfcModulus =
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZ"
    + "S-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2"
    + "R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDT"
    + "W9gb54h4FRWyuXpoQ"
private let rfcPoint = (
    x: "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", y: "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
)

struct SignatureTests {
    @Test func `the examples of RFC 7515 are verified with their keys and no others`() throws {
        let keys = try KeySet(jwks: TestKeys.jwks(TestKeys.rsaKey(rfcModulus), TestKeys.ecKey(rfcPoint)))
        let others = try pem(TestKeys.rsaAPublic, TestKeys.ecAPublic)
        for token in [rsaToken, ecToken] {
            #expect(try verifier(keys).code(token) == .malformed)
            #expect(try verifier(others).code(token) == .badSignature)
            #expect(
                try verifier(keys).code(token.replacing(".eyJpc3MiOiJqb2Ui", with: ".eyJpc3MiOiJqb2Uj"))
                    == .badSignature
            )
        }
    }

    @Test(arguments: [(TestKeys.rsaAPrivate, TestKeys.rsaAPublic), (TestKeys.ecAPrivate, TestKeys.ecAPublic)])
    func `what a private key signs its public key verifies`(secret: String, open: String) throws {
        let verifier = try verifier(pem(open))
        // Numbers of every length and first bit come up: they are written differently.
        for number in 0..<300 {
            #expect(verifier.code(try token(secret, subject: "user \(number)")) == nil)
        }
        #expect(try verifier.code(token(TestKeys.rsaBPrivate)) == .badSignature)
        #expect(try verifier.code(token(TestKeys.ecBPrivate)) == .badSignature)
    }

    @Test func `only the three algorithms are taken, each with keys of its own`() throws {
        let secret = Array("0123456789abcdef0123456789abcdef".utf8)
        let sets = [
            "HS256": try KeySet(secrets: [secret]), "RS256": try pem(TestKeys.rsaAPublic),
            "ES256": try pem(TestKeys.ecAPublic),
        ]
        let tokens = [
            "HS256": try TokenMinter(TokenPolicy(hmacKeys: [secret])).mint(subject: "x", now: testNow, validFor: 9),
            "RS256": try token(TestKeys.rsaAPrivate), "ES256": try token(TestKeys.ecAPrivate),
        ]
        for (keyName, keys) in sets {
            for (tokenName, token) in tokens {
                let expected: AuthenticationError.Code? = keyName == tokenName ? nil : .badSignature
                #expect(try verifier(keys).code(token) == expected)
            }
        }
        // The same signature under another name.
        for name in ["none", "None", "RS384", "PS256", "ES384", "ES256K", "EdDSA", "HS256", "RS256", "rs256", ""] {
            let claim = #"{"alg":"\#(name)"}"#
            let all = try verifier(pem(TestKeys.rsaAPublic, TestKeys.ecAPublic))
            #expect(try all.code(token(TestKeys.ecAPrivate, header: claim)) == .badSignature)
            let bare = try token(TestKeys.ecAPrivate, header: claim).split(separator: ".").dropLast()
            #expect(all.code(bare.joined(separator: ".") + ".") == .badSignature)
        }
    }

    @Test func `a public key is never a secret`() throws {
        let keys = try pem(TestKeys.rsaAPublic, TestKeys.ecAPublic)
        for text in [TestKeys.rsaAPublic, TestKeys.rsaAPublic + "\n", TestKeys.ecAPublic, TestKeys.ecAPublic + "\n"] {
            let forged = try TokenMinter(TokenPolicy(hmacKeys: [Array(text.utf8)]))
            #expect(try verifier(keys).code(forged.mint(subject: "x", now: testNow, validFor: 9)) == .badSignature)
        }
        for key in keys.keys {
            guard case .publicKey(let key) = key.material else { continue }
            let forged = try TokenMinter(TokenPolicy(hmacKeys: [key.encoded]))
            #expect(try verifier(keys).code(forged.mint(subject: "x", now: testNow, validFor: 9)) == .badSignature)
        }
        // Nor a key that the token brings along.
        for member in [
            #""jwk":\#(TestKeys.ecKey(TestKeys.ecBPoint))"#, #""jku":"https://evil.example/keys""#,
            #""x5u":"https://evil.example/keys""#, #""kid":"../../dev/null""#,
        ] {
            let forged = try token(TestKeys.ecBPrivate, header: #"{"alg":"ES256",\#(member)}"#)
            #expect(try verifier(keys).code(forged) == .badSignature)
        }
    }

    @Test func `signatures of another form are refused`() throws {
        let verifier = try verifier(pem(TestKeys.rsaAPublic, TestKeys.ecAPublic))
        func with(_ bytes: [UInt8], _ original: String) -> String {
            let head = original.split(separator: ".").dropLast().joined(separator: ".")
            return head + "." + String(decoding: Base64URL.encode(bytes), as: UTF8.self)
        }
        let elliptic = try token(TestKeys.ecAPrivate)
        let rsa = try token(TestKeys.rsaAPrivate)
        for length in [0, 1, 31, 32, 63, 64, 65, 70, 72, 255, 256, 257, 512, 1024] {
            for byte in [0, 1, 0xff] as [UInt8] {
                let bytes = [UInt8](repeating: byte, count: length)
                #expect(verifier.code(with(bytes, elliptic)) == .badSignature)
                #expect(verifier.code(with(bytes, rsa)) == .badSignature)
            }
        }
        #expect(verifier.code(with([UInt8](repeating: 1, count: 1025), rsa)) == .malformed)
        // A zero in front makes the same numbers: a second spelling.
        var raw: [UInt8] = []
        let text = try #require(elliptic.split(separator: ".").last)
        #expect(Array(text.utf8).withUnsafeBufferPointer { Base64URL.decode($0, into: &raw) })
        #expect(verifier.code(with(raw, elliptic)) == nil)
        #expect(verifier.code(with([0] + raw[..<32] + [0] + raw[32...], elliptic)) == .badSignature)
    }

    @Test func `tokens changed at random never trap and never pass`() throws {
        let secret = Array("0123456789abcdef0123456789abcdef".utf8)
        let verifier = try verifier(
            KeySet(secrets: [secret]),
            pem(TestKeys.rsaAPublic, TestKeys.ecAPublic),
            KeySet(jwks: TestKeys.jwks(TestKeys.ecKey(TestKeys.ecBPoint, kid: "b")))
        )
        let good = try [
            TokenMinter(TokenPolicy(hmacKeys: [secret])).mint(subject: testUser, now: testNow, validFor: 60),
            token(TestKeys.rsaAPrivate), token(TestKeys.ecAPrivate), token(TestKeys.ecBPrivate, kid: "b"),
        ].map { Array($0.utf8) }
        #expect(good.allSatisfy { verifier.code(String(decoding: $0, as: UTF8.self)) == nil })
        var generator = SplitMix64(seed: 42)
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_..=+/\u{0} ".utf8)
        var passed = 0
        for _ in 0..<20_000 {
            var bytes = good[Int.random(in: 0..<good.count, using: &generator)]
            for _ in 0..<Int.random(in: 1...3, using: &generator) where !bytes.isEmpty {
                let place = Int.random(in: 0..<bytes.count, using: &generator)
                let byte = alphabet[Int.random(in: 0..<alphabet.count, using: &generator)]
                switch Int.random(in: 0..<6, using: &generator) {
                case 0: bytes.insert(byte, at: place)
                case 1: bytes.remove(at: place)
                case 2: bytes = Array(bytes[..<max(place, 1)])
                case 3: bytes += bytes[place...].prefix(40)
                case 4: bytes[place] = UInt8.random(in: 0...255, using: &generator)
                default: bytes[place] = byte
                }
            }
            guard !good.contains(bytes) else { continue }
            let result = bytes.withUnsafeBytes { token in Result { try verifier.verify(token: token, now: testNow) } }
            if case .success = result { passed += 1 }
        }
        #expect(passed == 0)
    }
}
