import Domain
import Glibc
import HTTPClient
import ServiceRuntime
import Testing

@testable import Authentication

/// A file of the test's own.
private final class TextFile {
    let path: String

    init(_ text: String) throws {
        var template = Array("/tmp/daybook-tls.XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let file = try #require(fdopen(descriptor, "w"))
        fputs(text, file)
        fclose(file)
    }

    deinit { unlink(path) }
}

private func answer(_ body: String, status: String = "200 OK", header: String = "X-Nothing: 1") -> String {
    "HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\(header)\r\n\r\n\(body)"
}

private let first = String(decoding: TestKeys.jwks(TestKeys.ecKey(TestKeys.ecAPoint, kid: "a")), as: UTF8.self)
private let second = String(decoding: TestKeys.jwks(TestKeys.ecKey(TestKeys.ecBPoint, kid: "b")), as: UTF8.self)

/// Keys that come over TLS, from servers of the tests' own.
struct TLSTests {
    private let authority: TextFile

    init() throws { authority = try TextFile(TestCertificates.authority) }

    /// Nil for a document that came.
    private func failure(_ server: TLSServer, host: String = "127.0.0.1", authority path: String?) throws -> String? {
        let url = try #require(FetchURL("https://\(host):\(server.port)/keys"))
        do throws(FetchFailure) {
            let body = try HTTPFetcher(certificates: path).get(url)
            #expect(String(decoding: body, as: UTF8.self) == first)
            return nil
        } catch {
            print("a fetch over TLS failed: \(error)")
            return error.description
        }
    }

    @Test func `a server is believed whose certificate an authority of ours has signed for that name`() throws {
        let server = try TLSServer(certificate: TestCertificates.good, answer: answer(first))
        #expect(try failure(server, authority: authority.path) == nil)
        #expect(try failure(server, host: "localhost", authority: authority.path) == nil)
        #expect(server.served == 2)
    }

    @Test func `a server is not believed that another authority vouches for, or none`() throws {
        let other = try TextFile(TestCertificates.otherAuthority)
        let server = try TLSServer(certificate: TestCertificates.good, answer: answer(first))
        #expect(try failure(server, authority: other.path)?.contains("certificate") == true)
        // The authorities of this machine.
        #expect(try failure(server, authority: nil)?.contains("certificate") == true)
        #expect(try failure(server, authority: "/nowhere/authorities.pem") != nil)
    }

    @Test(arguments: [TestCertificates.elsewhere, TestCertificates.expired])
    func `a certificate of another name, or past its time, is not believed`(certificate: String) throws {
        let server = try TLSServer(certificate: certificate, answer: answer(first))
        #expect(try failure(server, authority: authority.path)?.contains("certificate") == true)
    }

    @Test func `a redirect is followed to https alone, and a plain answer is none`() throws {
        let server = try TLSServer(certificate: TestCertificates.good, answer: answer(first))
        let moved = "302 Found"
        let to = try TLSServer(certificate: TestCertificates.good, answer: "")
        to.say(answer("", status: moved, header: "Location: https://127.0.0.1:\(server.port)/keys"))
        #expect(try failure(to, authority: authority.path) == nil)
        to.say(answer("", status: moved, header: "Location: http://127.0.0.1:\(server.port)/keys"))
        #expect(try failure(to, authority: authority.path) != nil)
        to.say(answer("", status: moved, header: "Location: https://127.0.0.1:\(to.port)/keys"))
        #expect(try failure(to, authority: authority.path) != nil)
        let url = try #require(FetchURL("http://127.0.0.1:\(server.port)/keys"))
        #expect(throws: FetchFailure.self) { try HTTPFetcher(certificates: authority.path).get(url) }
    }

    @Test func `keys are rotated over TLS, and a server that is no longer believed changes none`() throws {
        struct Fetcher: KeyFetcher {
            let certificates: String

            func fetch(_ url: String, isCancelled: @escaping @Sendable () -> Bool) throws(KeyFetchFailure) -> [UInt8] {
                guard let url = FetchURL(url) else { throw KeyFetchFailure("wrong URL") }
                do throws(FetchFailure) {
                    return try HTTPFetcher(certificates: certificates).get(url, isCancelled: isCancelled)
                } catch {
                    throw KeyFetchFailure(error.description)
                }
            }
        }
        let server = try TLSServer(certificate: TestCertificates.good, answer: answer(first))
        let authority = try TextFile(TestCertificates.authority)
        let time = ManualTime()
        var sources = KeySources()
        sources.jwksURL = "https://127.0.0.1:\(server.port)/keys"
        let keeper = try KeyKeeper(sources, fetcher: Fetcher(certificates: authority.path), time: time)
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        let (old, new) = try (token(TestKeys.ecAPrivate, kid: "a"), token(TestKeys.ecBPrivate, kid: "b"))
        _ = keeper.turn()
        #expect(verifier.code(old) == nil && verifier.code(new) == .badSignature)
        server.say(answer(second))
        let file = try #require(fopen(authority.path, "w"))
        fputs(TestCertificates.otherAuthority, file)
        fclose(file)
        time.advance(milliseconds: 300_000)
        _ = keeper.turn()
        #expect(keeper.status.failures[.jwksURL] == 1)
        #expect(verifier.code(old) == nil && verifier.code(new) == .badSignature)
        let again = try #require(fopen(authority.path, "w"))
        fputs(TestCertificates.authority, again)
        fclose(again)
        time.advance(milliseconds: 300_000)
        _ = keeper.turn()
        #expect(verifier.code(new) == nil && verifier.code(old) == .badSignature)
    }
}
