import Authentication
import Domain
import Testing

private let secret = Array("0123456789abcdef0123456789abcdef".utf8)
private let now = Instant(rfc3339: "2026-09-02T12:00:00Z") ?? .earliest
private let userText = "01234567-89ab-4def-8123-456789abcdef"
private let header = #"{"alg":"HS256","typ":"JWT"}"#

private func policy(issuer: String? = "https://id.example", audience: String? = "daybook") -> TokenPolicy {
    TokenPolicy(hmacKeys: [secret], issuer: issuer, audience: audience)
}

private func verify(
    _ token: String,
    by policy: TokenPolicy = policy(),
    now: Instant = now
) throws -> Result<Identity, AuthenticationError> {
    try verify(token, by: TokenVerifier(policy), now: now)
}

private func verify(_ token: String, by verifier: TokenVerifier, now: Instant = now) -> Result<
    Identity, AuthenticationError
> {
    Array("Bearer \(token)".utf8).withUnsafeBytes { bytes in
        do throws(AuthenticationError) {
            return .success(try verifier.verify(authorization: bytes, now: now))
        } catch {
            return .failure(error)
        }
    }
}

private func failure(_ code: AuthenticationError.Code) -> Result<Identity, AuthenticationError> {
    .failure(AuthenticationError(code))
}

private func signed(_ claims: String, header: String = header) throws -> String {
    try TokenMinter(policy()).sign(header: header, claims: Array(claims.utf8))
}

/// Claims that would do, with changes.
private func claims(
    sub: String? = "\"\(userText)\"",
    exp: String? = "1788350400",
    iss: String? = "\"https://id.example\"",
    aud: String? = "\"daybook\"",
    more: String = ""
) -> String {
    let members = [
        sub.map { "\"sub\":\($0)" }, exp.map { "\"exp\":\($0)" }, iss.map { "\"iss\":\($0)" },
        aud.map { "\"aud\":\($0)" },
    ]
    return "{" + members.compactMap { $0 }.joined(separator: ",") + more + "}"
}

struct TokenVerifierTests {
    @Test func `a minted token says who it is for`() throws {
        let token = try TokenMinter(policy()).mint(
            subject: userText.uppercased(),
            role: .connector,
            timeZone: "Europe/Athens",
            platform: .ios,
            now: now,
            validFor: 60
        )
        let expected = Identity(
            user: try #require(UserID(userText)),
            role: .connector,
            timeZone: "Europe/Athens",
            platform: .ios
        )
        #expect(try verify(token).get() == expected)
    }

    @Test func `a token of RFC 7515's own example is understood up to its claims`() throws {
        // RFC 7515, A.1: the key is longer than 32 bytes and the token has no sub.
        let token =
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
            + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        let key: [UInt8] = [
            3, 35, 53, 75, 43, 15, 165, 188, 131, 126, 6, 101, 119, 123, 166, 143, 90, 179, 40, 230, 240, 84, 201, 40,
            169, 15,
            132, 178, 210, 80, 46, 191, 211, 251, 90, 146, 210, 6, 71, 239, 150, 138, 180, 195, 119, 98, 61, 34, 61, 46,
            33,
            114, 5, 46, 79, 8, 192, 205, 154, 245, 103, 208, 128, 163,
        ]
        #expect(try verify(token, by: TokenPolicy(hmacKeys: [key])) == failure(.malformed))
        #expect(try verify(token, by: TokenPolicy(hmacKeys: [secret])) == failure(.badSignature))
    }

    @Test func `times are checked with leeway, from the cache too`() throws {
        let verifier = try TokenVerifier(policy())
        let token = try signed(claims(exp: "1788350460.5", more: ",\"nbf\":1788350400"))
        func at(_ seconds: Int) -> Result<Identity, AuthenticationError> {
            verify(token, by: verifier, now: Instant(microseconds: 1_788_350_400_000_000).advanced(bySeconds: seconds))
        }
        #expect(at(-31) == failure(.notYetValid))
        #expect((try? at(-29).get()) != nil)
        #expect((try? at(89).get()) != nil)
        #expect(at(91) == failure(.expired))
        #expect(at(-31) == failure(.notYetValid))
        #expect((try? at(0).get()) != nil)
    }

    @Test(arguments: [
        (claims(sub: nil), AuthenticationError.Code.malformed), (claims(sub: "\"\""), .malformed),
        (claims(sub: "7"), .malformed), (claims(exp: nil), .malformed), (claims(exp: "\"soon\""), .malformed),
        (claims(exp: "-1"), .malformed), (claims(exp: "null"), .malformed), (claims(exp: "1"), .expired),
        (claims(iss: nil), .wrongIssuer), (claims(iss: "\"https://evil.example\""), .wrongIssuer),
        (claims(aud: nil), .wrongAudience), (claims(aud: "\"other\""), .wrongAudience),
        (claims(aud: "[\"other\",7]"), .wrongAudience), (claims(aud: "{}"), .wrongAudience),
        (claims(more: ",\"sub\":\"x\""), .malformed), ("[]", .malformed), ("x", .malformed), ("", .malformed),
    ])
    func `claims that do not fit are refused with their code`(claims: String, code: AuthenticationError.Code) throws {
        #expect(try verify(signed(claims)) == failure(code))
    }

    @Test func `claims that fit in another form are taken`() throws {
        #expect(
            (try? verify(signed(claims(exp: "1e300", iss: "\"https://id.example\"", aud: "[\"x\",\"daybook\"]"))).get())
                != nil
        )
        let odd = claims(more: #","role":"authenticated","time_zone":7,"platform":"toaster","nbf":null,"x":[[1]]"#)
        #expect(try verify(signed(odd)).get() == Identity(user: try #require(UserID(userText))))
    }

    @Test(arguments: [
        (#"{"alg":"none"}"#, AuthenticationError.Code.badSignature), (#"{"alg":"hs256"}"#, .badSignature),
        (#"{"alg":"HS512"}"#, .badSignature), (#"{"alg":"RS256"}"#, .badSignature), (#"{"typ":"JWT"}"#, .malformed),
        (#"{"alg":7}"#, .malformed), (#"{"alg":"HS256","alg":"none"}"#, .malformed),
        (#"{"alg":"HS256","crit":["x"]}"#, .malformed), ("[]", .malformed), ("", .malformed),
    ])
    func `only HS256 is an algorithm`(header: String, code: AuthenticationError.Code) throws {
        #expect(try verify(signed(claims(), header: header)) == failure(code))
    }

    @Test func `tokens that are none are malformed, and a changed one does not fit`() throws {
        let good = try signed(claims())
        #expect((try? verify(good).get()) != nil)
        for bad in [
            "", "x", "a.b", "a.b.c", ".", "..", "...", "..x", good + ".", good + "=", good + "\n",
            good.replacing(".", with: " "),
        ] {
            let result = try verify(bad)
            #expect(result == failure(.malformed), "\(bad)")
        }
        #expect(try verify(String(repeating: "a", count: 5000)) == failure(.malformed))
        let parts = good.split(separator: ".").map(String.init)
        #expect(try verify("\(parts[0]).\(parts[1]).") == failure(.badSignature))
        let other = try TokenMinter(TokenPolicy(hmacKeys: [Array(secret.reversed())])).sign(
            header: header,
            claims: Array(claims().utf8)
        )
        #expect(try verify(other) == failure(.badSignature))
        #expect(try verify("\(parts[0]).\(parts[1]).\(other.split(separator: ".")[2])") == failure(.badSignature))
        // Stray bits at the end of the signature would make a second spelling of one token.
        let last = try #require(parts[2].last)
        let twin =
            String(parts[2].dropLast()) + (last == "A" ? "B" : String(UnicodeScalar((last.asciiValue ?? 65) + 1)))
        #expect((try? verify("\(parts[0]).\(parts[1]).\(twin)").get()) == nil)
    }

    @Test func `the scheme must be bearer`() throws {
        let verifier = try TokenVerifier(policy())
        let good = try signed(claims())
        func check(_ header: String?) -> AuthenticationError.Code? {
            func run(_ bytes: UnsafeRawBufferPointer?) -> AuthenticationError.Code? {
                do throws(AuthenticationError) {
                    _ = try verifier.verify(authorization: bytes, now: now)
                    return nil
                } catch {
                    return error.code
                }
            }
            guard let header else { return run(nil) }
            return Array(header.utf8).withUnsafeBytes { run($0) }
        }
        #expect(check(nil) == .missing)
        #expect(check("") == .missing)
        #expect(check("Basic abc") == .malformed)
        #expect(check("Bearer") == .malformed)
        #expect(check("bearer  \(good)") == nil)
        #expect(check("BEARER \(good)") == nil && check("bEaReR \(good)") == nil)
        // Bytes that differ from the scheme's by one bit, or by one byte.
        let scheme = Array("Bearer ".utf8)
        for place in scheme.indices {
            for byte in UInt8.min ... .max where byte | 0x20 != scheme[place] | 0x20 {
                var header = scheme + Array(good.utf8)
                header[place] = byte
                #expect(check(String(decoding: header, as: UTF8.self)) == .malformed)
            }
        }
        #expect(check("Bearer\0\(good)") == .malformed)
    }

    @Test func `while keys are rotated both fit`() throws {
        var both = policy()
        both.hmacKeys = [Array(secret.reversed()), secret]
        #expect((try? verify(signed(claims()), by: both).get()) != nil)
    }

    @Test func `many tokens in a small cache keep their own identities`() throws {
        let verifier = try TokenVerifier(policy(), remembering: 4)
        let minter = try TokenMinter(policy())
        var tokens: [(String, UserID)] = []
        for number in 0..<40 {
            let user = UserID(high: 7, low: UInt64(number))
            tokens.append((try minter.mint(subject: user.description, now: now, validFor: 60), user))
        }
        for _ in 0..<3 {
            for (token, user) in tokens { #expect(try verify(token, by: verifier).get().user == user) }
        }
    }

    @Test func `keys that are too short or missing are refused`() {
        #expect(throws: TokenPolicy.Failure.self) { try TokenVerifier(TokenPolicy(hmacKeys: [])) }
        #expect(throws: TokenPolicy.Failure.self) {
            try TokenVerifier(TokenPolicy(hmacKeys: [Array(secret.dropLast())]))
        }
        #expect("\(policy())" == "TokenPolicy(hmacKeys: ***)")
    }
}

struct SubjectMappingTests {
    @Test func `a subject that is no UUID is mapped over its issuer`() throws {
        func user(_ subject: String, _ issuer: String) -> UserID? {
            let subject = Array(subject.utf8)
            let issuer = Array(issuer.utf8)
            return SubjectMapping.user(subject: subject.span, issuer: issuer.span)
        }
        let mapped = try #require(user("auth0|12345", "https://id.example"))
        #expect(mapped == user("auth0|12345", "https://id.example"))
        #expect(mapped != user("auth0|12345", "https://other.example"))
        #expect(mapped.description.dropFirst(14).first == "5")
        #expect(mapped.description == "d890221f-0512-5974-8aba-77fcf2823f2b")
        #expect(user(userText.uppercased(), "x")?.description == userText)
        #expect(user("", "x") == nil)
        #expect(user(String(repeating: "x", count: 257), "x") == nil)
    }
}
