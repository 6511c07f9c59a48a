import Postgres
import Testing

@Suite struct PostgresDispositionTests {
    @Test(
        arguments: [
            ("22003", .poison), ("22P02", .poison), ("22021", .poison), ("23505", .poison), ("23502", .poison),
            ("21000", .poison),
            ("40001", .retry), ("40P01", .retry), ("25P03", .retry), ("55P03", .retry), ("57014", .retry),
            ("08006", .unavailable), ("08P01", .unavailable), ("57P01", .unavailable), ("57P02", .unavailable),
            ("57P03", .unavailable), ("53300", .unavailable), ("53100", .unavailable), ("25006", .unavailable),
            ("42P01", .stop), ("42501", .stop), ("42601", .stop), ("28P01", .stop), ("28000", .stop), ("3D000", .stop),
            ("25P02", .stop), ("40002", .stop), ("55000", .stop), ("57000", .stop), ("P0001", .stop), ("XX000", .stop),
            ("0A000", .stop), ("2200", .stop), ("", .stop),
        ] as [(String, PostgresDisposition)]
    )
    func `each SQLSTATE has one disposition`(sqlState: String, expected: PostgresDisposition) {
        #expect(PostgresDisposition.of(sqlState: sqlState, hasConstraint: true, connectionLost: false) == expected)
    }

    @Test func `a failed check without a constraint is a missing partition`() {
        #expect(
            PostgresDisposition.of(sqlState: "23514", hasConstraint: false, connectionLost: false) == .missingPartition
        )
        #expect(PostgresDisposition.of(sqlState: "23514", hasConstraint: true, connectionLost: false) == .poison)
    }

    @Test func `a lost connection without a word is unavailable`() {
        #expect(PostgresDisposition.of(sqlState: nil, hasConstraint: false, connectionLost: true) == .unavailable)
        #expect(PostgresDisposition.of(sqlState: nil, hasConstraint: false, connectionLost: false) == .stop)
        #expect(PostgresDisposition.of(sqlState: "XX000", hasConstraint: false, connectionLost: true) == .unavailable)
        #expect(PostgresDisposition.of(sqlState: "25P03", hasConstraint: false, connectionLost: true) == .retry)
    }
}

@Suite struct PostgresErrorTests {
    @Test func `a message that may quote a value is withheld`() {
        for sqlState in ["22P02", "23505", "22003", "P0001", "44000", "01000"] {
            let error = PostgresError.reported(sqlState: sqlState, primaryMessage: "input \"83.5\"", constraint: "c")
            #expect(!error.description.contains("83.5"))
            #expect(error.description.contains(sqlState))
            #expect(error.description.contains("constraint c"))
        }
    }

    @Test func `a message about the schema is shown`() {
        let error = PostgresError.reported(sqlState: "42P01", primaryMessage: "relation \"days\" does not exist")
        #expect(error.description == "PostgreSQL error 42P01: relation \"days\" does not exist")
    }

    @Test(arguments: [
        "postgres://u:hunter2@[::1", "postgres://u:hunter2@host:port/db", "postgres://u:hun@ter2@127.0.0.1:1/db",
        "postgres://u:hun/ter2@127.0.0.1:1/db", "postgres://u:1/ter2@127.0.0.1:1/db", "password=hunter2 nonsense",
        "postgres://u:hunter2@127.0.0.1:1/db", "postgres://u:hunter2@no-such-host.invalid/db", "hunter2\0",
        "postgres://u:hunter2@127.0.0.1:99999/db", "postgres://u:hunter2@127.0.0.1:1/db?nonsense=hunter2",
        "postgres://u:hunter2@127.0.0.1:1/db?sslmode=hunter2",
    ])
    func `no part of the URL's password is in an error`(url: String) {
        do {
            _ = try PostgresConnection(url: url, applicationName: "test", connectTimeout: .seconds(5))
            Issue.record("connected")
        } catch {
            #expect(!error.description.contains("ter2"))
            #expect(!error.description.contains("hun"))
        }
    }

    @Test func `nothing listening is unavailable, a bad URL stops`() {
        let refused = #expect(throws: PostgresError.self) {
            _ = try PostgresConnection(url: "postgres://u@127.0.0.1:1/db", applicationName: "test")
        }
        #expect(refused?.connectionLost == true)
        #expect(refused?.disposition == .unavailable)
        #expect(refused?.message.contains("127.0.0.1:1") == true)
        let unreadable = #expect(throws: PostgresError.self) {
            _ = try PostgresConnection(url: "postgres://u@h:x/db", applicationName: "test")
        }
        #expect(unreadable?.disposition == .stop)
    }
}
