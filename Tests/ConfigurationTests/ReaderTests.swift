import Testing

@testable import Configuration

/// The least that each service needs.
let ingestMinimum = [
    "DAYBOOK_KAFKA_BROKERS": "127.0.0.1:9092",
    "DAYBOOK_JWT_HS256_SECRET": "0123456789abcdef0123456789abcdef",
]
let aggregatorMinimum = [
    "DAYBOOK_KAFKA_BROKERS": "127.0.0.1:9092",
    "DAYBOOK_DATABASE_URL": "postgresql://daybook:hunter2@127.0.0.1/daybook",
]

private func problems(_ body: () throws(ConfigurationErrors) -> Void) -> [String] {
    do {
        try body()
        return []
    } catch {
        return error.problems.map(\.description)
    }
}

private func ingestProblems(_ changes: [String: String]) -> [String] {
    problems { () throws(ConfigurationErrors) in
        _ = try IngestConfiguration.read(environment: ingestMinimum.merging(changes) { $1 })
    }
}

struct ServiceConfigurationTests {
    @Test func `ingest needs brokers and a key, and has a default for the rest`() throws {
        let configuration = try IngestConfiguration.read(environment: ingestMinimum)
        #expect(configuration.http.address == SocketAddress(host: "127.0.0.1", port: 8080))
        #expect(configuration.process.adminAddress.port == 8081)
        #expect(configuration.http.requestDeadlineMilliseconds == 10_000)
        #expect(configuration.http.maxBodyBytes == 1 << 20)
        #expect(configuration.http.maxDecompressedBytes == 8 << 20)
        #expect(configuration.http.maxHeaders == 64 && configuration.http.maxTargetBytes == 4096)
        #expect(configuration.http.answerReadTimeoutMilliseconds == 30_000)
        #expect(configuration.http.listenBacklog == 1024)
        #expect(configuration.fallbackZone == "America/New_York")
        #expect(configuration.tokens.secrets.map { $0.secret.reveal() } == ["0123456789abcdef0123456789abcdef"])
        #expect(configuration.tokens.issuer == nil)
        #expect(configuration.kafka.brokers == "127.0.0.1:9092")
        #expect(configuration.kafka.topicPrefix.isEmpty)
    }

    @Test func `the aggregator has another admin port by the same key`() throws {
        let configuration = try AggregatorConfiguration.read(environment: aggregatorMinimum)
        #expect(configuration.process.adminAddress.port == 8082)
        #expect(configuration.liveLanes >= 1)
        #expect(configuration.consumer.lostLogPolicy == .stop)
        #expect(configuration.batch.days == 2000)
        #expect(configuration.brake.sharePercent == 20)
        #expect(configuration.database.idleTransactionTimeoutMilliseconds == 10_000)
    }

    @Test func `the operator's program needs nothing`() throws {
        let configuration = try ToolConfiguration.read(environment: [:])
        #expect(configuration.brokers == nil && configuration.databaseURL == nil && configuration.tokenSecret == nil)
        #expect(configuration.partitions == 32 && configuration.replication == 3)
    }

    @Test func `every error is reported, and at once`() {
        let found = problems { () throws(ConfigurationErrors) in
            _ = try IngestConfiguration.read(environment: [
                "DAYBOOK_INGEST_ADDRESS": "localhost:http", "DAYBOOK_MAX_BODY_BYTES": "12k", "DAYBOOK_MAX_BODY": "1",
            ])
        }
        #expect(found.count == 5)
        #expect(found.contains { $0.hasPrefix("DAYBOOK_INGEST_ADDRESS must be an IP address and a port") })
        #expect(found.contains("DAYBOOK_MAX_BODY_BYTES must be a whole number from 1024 to 67108864 bytes"))
        #expect(found.contains { $0.hasPrefix("DAYBOOK_KAFKA_BROKERS is required: ") })
        #expect(
            found.contains { $0.hasPrefix("DAYBOOK_JWT_HS256_SECRET is required (or DAYBOOK_JWT_HS256_SECRET_FILE)") }
        )
        #expect(found.contains("DAYBOOK_MAX_BODY is not a setting; did you mean DAYBOOK_MAX_BODY_BYTES?"))
    }

    @Test(arguments: [
        ("DAYBOOK_JWT_PEM_FILES", "/etc/a.pem, /etc/b.pem"), ("DAYBOOK_JWT_JWKS_FILE", "/etc/keys.json"),
        ("DAYBOOK_JWT_JWKS_URL", "https://id.example/keys"), ("DAYBOOK_JWT_JWKS_URL", "http://127.0.0.1:81/keys"),
    ])
    func `any source of keys will do for a secret`(key: String, value: String) throws {
        let environment = ["DAYBOOK_KAFKA_BROKERS": "127.0.0.1:9092", key: value]
        let tokens = try IngestConfiguration.read(environment: environment).tokens
        #expect(tokens.secrets.isEmpty)
        #expect(tokens.pemFiles == (key.contains("PEM") ? ["/etc/a.pem", "/etc/b.pem"] : []))
    }

    @Test func `a rotation has two secrets, and each may be a file`() throws {
        var reader = ConfigurationReader(
            program: .ingest,
            environment: [
                "DAYBOOK_JWT_HS256_SECRET_FILE": "/run/key",
                "DAYBOOK_JWT_HS256_PREVIOUS_SECRET": "0123456789abcdef0123456789abcdef",
            ]
        ) { _ in "fedcba9876543210fedcba9876543210\n" }
        let tokens = TokenConfiguration(&reader)
        try reader.finish()
        #expect(tokens.secrets.map(\.file) == ["/run/key", nil])
        #expect(tokens.secrets.first?.secret.reveal() == "fedcba9876543210fedcba9876543210")
        let alone = [
            "DAYBOOK_JWT_HS256_SECRET": "", "DAYBOOK_JWT_HS256_PREVIOUS_SECRET": String(repeating: "x", count: 32),
        ]
        #expect(ingestProblems(alone).contains { $0.hasPrefix("DAYBOOK_JWT_HS256_PREVIOUS_SECRET is for a rotation") })
        #expect(ingestProblems(["DAYBOOK_JWT_JWKS_CA_FILE": "/etc/ca.pem"]).count == 1)
    }

    @Test func `errors never show a value`() {
        let secret = "s3cr3t-but-too-short"
        let found = ingestProblems([
            "DAYBOOK_JWT_HS256_SECRET": secret, "DAYBOOK_LOG_LEVEL": secret, "DAYBOOK_INGEST_ADDRESS": secret,
            "DAYBOOK_JWT_LEEWAY_SECONDS": secret, "DAYBOOK_UNKNOWN_THING": secret, "DAYBOOK_KAFKA_ACKS": secret,
        ])
        #expect(found.count == 6)
        #expect(!found.joined().contains(secret))
    }

    @Test func `the text of the errors counts them and says where to look`() {
        let one = ConfigurationErrors(problems: [.init(place: "DAYBOOK_X", rule: "must be right")])
        #expect(one.description.hasPrefix("1 setting is wrong:\n  DAYBOOK_X must be right\n"))
        #expect(one.description.contains("daybook config"))
    }

    @Test(arguments: [
        ("DAYBOOK_MAX_DECOMPRESSED_BYTES", "4096"), ("DAYBOOK_DRAIN_DELAY_MS", "12501"),
        ("DAYBOOK_JWT_LEEWAY_SECONDS", "-1"), ("DAYBOOK_JWT_LEEWAY_SECONDS", "+1"),
        ("DAYBOOK_JWT_LEEWAY_SECONDS", "1.0"),
        ("DAYBOOK_JWT_LEEWAY_SECONDS", " 1"), ("DAYBOOK_JWT_LEEWAY_SECONDS", "99999999999999999999"),
        ("DAYBOOK_KAFKA_BROKERS", "kafka"), ("DAYBOOK_KAFKA_BROKERS", "kafka:0"), ("DAYBOOK_KAFKA_BROKERS", "a:1,,b:2"),
        ("DAYBOOK_KAFKA_BROKERS", "a b:1"), ("DAYBOOK_FALLBACK_ZONE", "../etc passwd"),
        ("DAYBOOK_TOPIC_PREFIX", "a b"), ("DAYBOOK_TOPIC_PREFIX", "ä."), ("DAYBOOK_ALLOW_WEAK_TOPICS", "maybe"),
        ("DAYBOOK_LOG_LEVEL", "INFO"), ("DAYBOOK_JWT_ISSUER", "a\u{7}b"),
        ("DAYBOOK_JWT_JWKS_URL", "http://id.example/keys"), ("DAYBOOK_JWT_JWKS_URL", "http://127.0.0.1.evil.example/"),
        ("DAYBOOK_JWT_JWKS_URL", "https://user@id.example/"), ("DAYBOOK_JWT_JWKS_URL", "keys.json"),
        ("DAYBOOK_JWT_PEM_FILES", "a.pem,,b.pem"), ("DAYBOOK_JWT_JWKS_REFRESH_SECONDS", "9"),
        ("DAYBOOK_JWT_CACHE_TOKENS", "0"), ("DAYBOOK_MAX_HEADERS", "1025"), ("DAYBOOK_MAX_TARGET_BYTES", "255"),
        ("DAYBOOK_ANSWER_READ_TIMEOUT_MS", "99"), ("DAYBOOK_LISTEN_BACKLOG", "65536"),
    ])
    func `what is out of range or badly formed is refused under its key`(key: String, value: String) {
        let found = ingestProblems([key: value])
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix(key + " must ") == true)
    }

    @Test(
        arguments: [
            ("0.0.0.0:80", "0.0.0.0", 80), ("[::1]:8080", "::1", 8080), ("[::]:0", "::", 0),
            ("127.0.0.1:65535", "127.0.0.1", 65535),
        ] as [(String, String, UInt16)]
    )
    func `addresses of both families are read and written alike`(text: String, host: String, port: UInt16) {
        #expect(SocketAddress(text) == SocketAddress(host: host, port: port))
        #expect(SocketAddress(text)?.description == text)
    }

    @Test(arguments: [
        "", ":", ":80", "1.2.3.4", "1.2.3:80", "1.2.3.256:80", "01.2.3.4:80", "1.2.3.4:65536", "1.2.3.4:-1", "::1:80",
        "[::1:80", "[x::1]:80", "localhost:80", "1.2.3.4:8 0", "[]:80", "1.2.3.4:８０",
    ])
    func `what is no address is refused`(text: String) {
        #expect(SocketAddress(text) == nil)
    }
}

struct SourcesTests {
    /// Files by path; any other can't be opened.
    private func reader(_ environment: [String: String], files: [String: String] = [:]) -> ConfigurationReader {
        ConfigurationReader(program: .ingest, environment: environment) { path in
            guard let text = files[path] else { throw TextFile.Failure.cannotOpen }
            return text
        }
    }

    private func issues(_ reader: ConfigurationReader) -> [String] {
        problems { () throws(ConfigurationErrors) in try reader.finish() }
    }

    @Test func `the file fills in what the environment leaves open`() {
        let file = """
            # Ingest
            DAYBOOK_LOG_LEVEL=debug

              DAYBOOK_JWT_ISSUER = "https://issuer.example/#a=b"\r
            DAYBOOK_JWT_LEEWAY_SECONDS='5'
            DAYBOOK_JWT_AUDIENCE=
            """
        var reader = reader(
            ["DAYBOOK_CONFIG_FILE": "/etc/d.conf", "DAYBOOK_LOG_LEVEL": "error", "DAYBOOK_IDLE_TIMEOUT_MS": ""],
            files: ["/etc/d.conf": file]
        )
        #expect(reader.read(Settings.Process.logLevel) == .error)
        #expect(reader.readOptional(Settings.Tokens.issuer) == "https://issuer.example/#a=b")
        #expect(reader.read(Settings.Tokens.leeway) == 5)
        #expect(reader.readOptional(Settings.Tokens.audience) == nil)
        #expect(reader.read(Settings.Ingest.idleTimeout) == 75_000)
        #expect(issues(reader).isEmpty)
    }

    @Test func `a bad file is refused line by line, without its text`() {
        let file = """
            DAYBOOK_LOG_LEVEL=info
            hunter2
            PATH=/bin
            DAYBOOK_LOG_LEVEL=debug
            DAYBOOK_CONFIG_FILE=/other
            DAYBOOK_LOG_LEVLE=info
            """
        let found = issues(reader(["DAYBOOK_CONFIG_FILE": "d.conf"], files: ["d.conf": file]))
        #expect(
            found == [
                "d.conf, line 2: must read KEY=VALUE", "d.conf, line 3: must name a key that begins with DAYBOOK_",
                "d.conf, line 4: repeats DAYBOOK_LOG_LEVEL: keep one",
                "DAYBOOK_CONFIG_FILE can only be set in the environment",
                "DAYBOOK_LOG_LEVLE is not a setting; did you mean DAYBOOK_LOG_LEVEL?",
            ]
        )
        #expect(issues(reader(["DAYBOOK_CONFIG_FILE": "nowhere"])).first?.contains("can't be opened") == true)
    }

    @Test func `a secret comes from a file, without the line feed at its end`() {
        let key = "DAYBOOK_JWT_HS256_SECRET"
        let secret = "0123456789abcdef0123456789abcdef"
        var fromFile = reader([key + "_FILE": "/run/secrets/jwt"], files: ["/run/secrets/jwt": secret + "\n"])
        #expect(fromFile.read(Settings.Tokens.secret).reveal() == secret)
        #expect(issues(fromFile).isEmpty)

        var twice = reader([key: secret, key + "_FILE": "/run/secrets/jwt"], files: ["/run/secrets/jwt": secret])
        _ = twice.read(Settings.Tokens.secret)
        #expect(issues(twice) == ["\(key) is set twice: keep either it or \(key)_FILE"])

        for (files, word) in [([:], "can't be opened"), (["/run/secrets/jwt": "\n"], "empty")] {
            var bad = reader([key + "_FILE": "/run/secrets/jwt"], files: files)
            _ = bad.read(Settings.Tokens.secret)
            #expect(issues(bad).count == 1 && issues(bad)[0].contains(word))
        }
    }

    @Test func `a secret in the environment replaces the file's, whichever form each has`() {
        let key = "DAYBOOK_JWT_HS256_SECRET"
        let secret = "0123456789abcdef0123456789abcdef"
        var reader = reader(
            ["DAYBOOK_CONFIG_FILE": "d", key: secret],
            files: ["d": "\(key)_FILE=/run/secrets/jwt\n"]
        )
        #expect(reader.read(Settings.Tokens.secret).reveal() == secret)
        #expect(issues(reader).isEmpty)
    }

    @Test func `only secrets have a file form`() {
        #expect(issues(reader(["DAYBOOK_LOG_LEVEL_FILE": "x"])).count == 1)
    }

    @Test(arguments: [
        ("DAYBOOK_INGEST_ADRESS", "DAYBOOK_INGEST_ADDRESS"), ("DAYBOOK_MAX_CONECTIONS", "DAYBOOK_MAX_CONNECTIONS"),
        ("DAYBOOK_KAFKA_BROKER", "DAYBOOK_KAFKA_BROKERS"), ("DAYBOOK_KAFKA_PARTITION", "DAYBOOK_KAFKA_PARTITIONS"),
    ])
    func `an unknown key is refused with the one that was probably meant`(key: String, meant: String) {
        #expect(issues(reader([key: "1"])) == ["\(key) is not a setting; did you mean \(meant)?"])
    }

    @Test func `an unknown key like no other is refused without a guess, however long`() {
        #expect(
            issues(reader(["DAYBOOK_ZZZZZZZZZZZZZZZZ": "1"])) == [
                "DAYBOOK_ZZZZZZZZZZZZZZZZ is not a setting; remove it"
            ]
        )
        #expect(issues(reader(["DAYBOOK_" + String(repeating: "A", count: 100_000): "1"])).count == 1)
        #expect(issues(reader(["PATH": "/bin", "MY_DAYBOOK_X": "1"])).isEmpty)
    }

    @Test func `keys of the other programs are no errors`() {
        #expect(issues(reader(["DAYBOOK_BATCH_DAYS": "5", "DAYBOOK_DATABASE_URL_FILE": "/x"])).isEmpty)
    }

    @Test func `other Kafka keys are properties of librdkafka, kept secret`() {
        var reader = reader(
            [
                "DAYBOOK_KAFKA_SECURITY_PROTOCOL": "sasl_ssl", "DAYBOOK_KAFKA_SASL_PASSWORD_FILE": "/run/p",
                "DAYBOOK_KAFKA_LOG__LEVEL": "7", "DAYBOOK_KAFKA_DEBUG": "broker", "DAYBOOK_KAFKA_BROKERS": "a:1",
            ],
            files: ["/run/p": "hunter2\n"]
        )
        let properties = reader.readKafkaProperties()
        #expect(properties.map(\.name) == ["debug", "log_level", "sasl.password", "security.protocol"])
        #expect(properties.map { $0.value.reveal() } == ["broker", "7", "hunter2", "sasl_ssl"])
        #expect(!"\(properties)".contains("hunter2"))
        #expect(issues(reader).isEmpty)
    }

    @Test(arguments: [
        ("DAYBOOK_KAFKA_ACKS", "depend on it"), ("DAYBOOK_KAFKA_BOOTSTRAP_SERVERS", "DAYBOOK_KAFKA_BROKERS"),
        ("DAYBOOK_KAFKA_GROUP_ID", "DAYBOOK_CONSUMER_GROUP"),
        ("DAYBOOK_KAFKA_GROUP_INSTANCE_ID", "DAYBOOK_CONSUMER_INSTANCE"), ("DAYBOOK_KAFKA_lower", "not a setting"),
        ("DAYBOOK_KAFKA_", "not a setting"),
    ])
    func `properties that guarantees depend on can't be set`(key: String, word: String) {
        let found = issues(reader([key: "x"]))
        #expect(found.count == 1 && found[0].contains(word))
    }

    @Test func `a property set twice is refused`() {
        var reader = reader(
            ["DAYBOOK_KAFKA_SASL_PASSWORD": "a", "DAYBOOK_KAFKA_SASL_PASSWORD_FILE": "/run/p"],
            files: ["/run/p": "b"]
        )
        _ = reader.readKafkaProperties()
        #expect(issues(reader).count == 1)
    }

    @Test func `the environment is parsed as getenv would`() {
        let bytes = Array("A=1\u{0}B=x=y\u{0}A=2\u{0}novalue\u{0}C=\u{0}".utf8)
        #expect(Environment.parse(bytes) == ["A": "1", "B": "x=y", "C": ""])
        #expect(Environment.current()["PATH"] != nil)
    }

    @Test func `real files are read, and what is no text file is an error`() throws {
        #expect(try TextFile.read(#filePath).contains("real files are read"))
        #expect(throws: TextFile.Failure.cannotOpen) { try TextFile.read("/nonexistent/file") }
        #expect(throws: TextFile.Failure.cannotRead) { try TextFile.read("/tmp") }
        #expect(throws: TextFile.Failure.tooLong) { try TextFile.read("/dev/zero") }
    }
}

struct SecretTests {
    private struct Holder {
        let secret: Secret
        let name = "holder"
    }

    @Test func `nothing that prints a secret shows it`() {
        let holder = Holder(secret: Secret("hunter2"))
        var dumped = ""
        dump(holder, to: &dumped)
        let texts = [
            "\(holder.secret)", holder.secret.debugDescription, String(reflecting: holder.secret), "\(holder)",
            String(reflecting: holder), dumped, "\(Optional(holder.secret) as Any)", "\([holder.secret])",
            "\(Mirror(reflecting: holder.secret).children.map { "\($0.value)" })",
        ]
        for text in texts { #expect(!text.contains("hunter2")) }
        #expect("\(holder.secret)" == "***")
        #expect(holder.secret.reveal() == "hunter2")
    }
}
