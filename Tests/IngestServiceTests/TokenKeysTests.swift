import Authentication
import Configuration
import Domain
import Glibc
import ServiceRuntime
import Testing

@testable import IngestService

struct TokenKeysTests {
    private func token(_ privateKey: String, _ keyID: String) throws -> String {
        let now = Instant(microseconds: SystemTime().wallMicroseconds())
        return try TokenMinter(privateKey: Array(privateKey.utf8), keyID: keyID, TokenPolicy())
            .mint(subject: "00000000-0000-4000-8000-000000000001", now: now, validFor: 600)
    }

    private func write(_ path: String, _ text: String) throws {
        let file = try #require(fopen(path, "w"))
        fputs(text, file)
        fclose(file)
    }

    @Test func `keys of a file are rotated while the service runs`() throws {
        let path = "/tmp/daybook-jwks-\(getpid()).json"
        try write(path, TestKeys.first)
        defer { unlink(path) }
        let ingest = try IngestUnderTest(["DAYBOOK_JWT_HS256_SECRET": "", "DAYBOOK_JWT_JWKS_FILE": path])
        let client = try ingest.connect()
        let (old, new) = try (token(TestKeys.firstPrivate, "first"), token(TestKeys.secondPrivate, "second"))
        let shared = try IngestUnderTest.token()
        func status(_ token: String) throws -> Int {
            try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status
        }
        #expect(try status(old) == 202)
        #expect(try status(new) == 401)
        #expect(try status(shared) == 401)
        try write(path, TestKeys.second)
        try waitUntil("rotated") { try status(new) == 202 }
        #expect(try status(old) == 401)
        try write(path, "{")
        try waitUntil("noticed") {
            ingest.metrics.contains(#"daybook_ingest_token_keys_failures_total{source="jwks_file"} 1"#)
        }
        #expect(try status(new) == 202)
        #expect(ingest.metrics.contains(#"daybook_ingest_token_keys{algorithm="ES256"} 1"#))
        #expect(ingest.metrics.contains(#"daybook_ingest_token_keys{algorithm="HS256"} 0"#))
        #expect(
            ingest.metrics.contains(#"daybook_ingest_token_keys_refreshed_timestamp_seconds{source="jwks_file"}"#)
        )
        #expect(ingest.logLines.contains { $0.contains("a file of keys is broken") && $0.contains("broken_jwks") })
    }

    @Test func `without any key it is not ready, and says why`() throws {
        // Nobody listens on the discard port.
        let ingest = try IngestUnderTest(
            ["DAYBOOK_JWT_HS256_SECRET": "", "DAYBOOK_JWT_JWKS_URL": "http://127.0.0.1:9/keys"],
            waitsUntilReady: false
        )
        let admin = try ingest.connectAdmin()
        try waitUntil("all but the keys") {
            let body = try admin.request("GET", "/readyz").body
            return body.contains("keys_unknown: ") && !body.contains("topics_unknown") && !body.contains("unconfirmed")
        }
        let answer = try ingest.connect().request("POST", "/v1/days", token: "x.y.z", body: IngestUnderTest.body())
        #expect(answer.status == 503)
        #expect(ingest.logLines.contains { $0.contains("the JWKS could not be fetched") })
    }

    @Test func `a start with keys that can't be used is refused`() throws {
        let environment = [
            "DAYBOOK_KAFKA_BROKERS": "127.0.0.1:9092", "DAYBOOK_JWT_PEM_FILES": "/dev/null,/nowhere/key.pem",
        ]
        let problems = IngestProgram.check(try IngestConfiguration.read(environment: environment))
        #expect(problems.count == 1 && problems.first?.contains("/dev/null: There is no key") == true)
    }
}
