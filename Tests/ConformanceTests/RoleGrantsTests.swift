import Domain
import Postgres
import Storage
import TestSupport
import Testing

/// What each role of docs/DATABASE.md may do, as a whole: whatever is not in these tables is refused by the server. The
/// wake workers' role has a suite of its own. Ingest has no role: nothing in it talks to a database (D8).
@Suite struct `What each role of the database may do` {
    struct Role: CustomTestStringConvertible, Sendable {
        let name: String
        /// By table or view: letters for SELECT, INSERT, UPDATE, DELETE.
        let grants: [String: String]
        /// By table: the only columns that may be updated.
        let columns: [String: [String]]
        /// By table: the only columns that may be read.
        let readColumns: [String: [String]]
        let functions: Set<String>

        var testDescription: String { name }
    }

    static let roles = [
        // Aggregator workers, and the operator's tools.
        Role(
            name: "daybook_worker",
            grants: [
                "source_days": "SIUD", "canonical_days": "SIUD", "connections": "SIUD", "accounts": "SIU",
                "account_sources": "SIU", "canonical_values": "S", "sources": "S", "device_tokens": "SIUD",
                "live_device_tokens": "S", "wake_schedule": "SIUD", "consumer_offsets": "SIU", "control": "S",
                "dead_letter_marks": "SIUD", "tool_runs": "SIUD", "tool_run_parts": "SIUD", "schema_migrations": "S",
                "door_counts": "SIU", "push_sends": "SUD",
                // For `daybook wake`.
                "wake_control": "SI", "push_stops": "SD", "partition_counts": "S", "wakes": "S",
            ],
            columns: ["control": ["retention_floor"], "wake_control": ["paused_at", "resumes"]],
            readColumns: ["provider_tokens": ["issued_at", "key_id", "paused_until"]],
            functions: ["ensure_month", "drop_month"]
        ),
        // People and services that read one user.
        Role(
            name: "daybook_reader",
            grants: [
                "source_days": "S", "canonical_days": "S", "connections": "S", "accounts": "S", "account_sources": "S",
                "canonical_values": "S", "sources": "S",
            ],
            columns: [:],
            readColumns: [:],
            functions: []
        ),
    ]

    private static let verbs = [("S", "SELECT"), ("I", "INSERT"), ("U", "UPDATE"), ("D", "DELETE")]

    private func migrated() throws -> (url: String, owner: PostgresConnection) {
        let url = try PrivatePostgres.freshDatabase()
        let owner = try PostgresConnection(url: url, applicationName: "owner")
        try Migrator(owner).migrate(today: CalendarDay(daysSinceEpoch: 20_606))
        return (url, owner)
    }

    private func texts(_ connection: PostgresConnection, _ sql: String) throws -> [[String]] {
        let result = try connection.executeUnprepared(sql)
        return try (0..<result.rowCount).map { row in
            try (0..<result.columnCount).map { try result.text(row, $0) }
        }
    }

    @Test(arguments: roles)
    func `the server's own list of grants is the table's, with not one more`(role: Role) throws {
        let (_, owner) = try migrated()
        let list = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
        let found = try texts(
            owner,
            """
            SELECT c.relname, string_agg(left(verb, 1), '' ORDER BY n)
            FROM pg_class AS c, unnest(ARRAY[\(list.map { "'\($0)'" }.joined(separator: ","))])
                WITH ORDINALITY AS verbs (verb, n)
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
                AND has_table_privilege('\(role.name)', c.oid, verb)
            GROUP BY c.relname
            """
        )
        // Partitions are relations too: none is in the table, so none may be granted.
        #expect(Dictionary(uniqueKeysWithValues: found.map { ($0[0], $0[1]) }) == role.grants)
        let columns = try texts(
            owner,
            """
            SELECT c.relname, a.attname, verb FROM pg_class AS c
            JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped,
                unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS verb
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
                AND has_column_privilege('\(role.name)', c.oid, a.attnum, verb)
                AND NOT has_table_privilege('\(role.name)', c.oid, verb)
            """
        )
        for (verb, expected) in [("UPDATE", role.columns), ("SELECT", role.readColumns)] {
            let found = Dictionary(grouping: columns.filter { $0[2] == verb }) { $0[0] }
            #expect(found.mapValues { $0.map { $0[1] }.sorted() } == expected)
        }
        #expect(columns.allSatisfy { ["UPDATE", "SELECT"].contains($0[2]) }, "\(columns)")
        let functions = try texts(
            owner,
            """
            SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
                AND has_function_privilege('\(role.name)', oid, 'EXECUTE')
            """
        )
        #expect(Set(functions.map { $0[0] }) == role.functions)
        let rights = try owner.executeUnprepared(
            """
            SELECT rolcanlogin OR rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls OR rolreplication,
                has_schema_privilege(rolname, current_schema(), 'CREATE'),
                has_database_privilege(rolname, current_database(), 'CREATE'),
                EXISTS (SELECT FROM pg_class WHERE relowner = pg_roles.oid),
                EXISTS (SELECT FROM pg_proc WHERE proowner = pg_roles.oid),
                EXISTS (SELECT FROM pg_auth_members WHERE member = pg_roles.oid)
            FROM pg_roles WHERE rolname = '\(role.name)'
            """
        )
        for (column, what) in ["an attribute", "the schema", "the database", "a table", "a function", "another role"]
            .enumerated()
        {
            #expect(try !rights.bool(0, column), "\(role.name) has \(what)")
        }
    }

    /// A list of rights is one thing; here each statement that is not granted is run and refused.
    @Test(arguments: roles)
    func `each statement that is not granted is refused`(role: Role) throws {
        let (url, owner) = try migrated()
        let relations = try texts(
            owner,
            """
            SELECT c.relname, c.relkind::text, a.attname FROM pg_class AS c
            JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = 1
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v')
            """
        )
        #expect(relations.count > 25)
        let settings = PostgresConnection.recommendedSettings + [("role", role.name)]
        let connection = try PostgresConnection(url: url, applicationName: "role", settings: settings)
        func expectDenied(_ sql: String) {
            do {
                try connection.simpleQuery("BEGIN; \(sql)")
                Issue.record("\(role.name) may: \(sql)")
            } catch {
                #expect(error.sqlState == "42501", "\(sql): \(error)")
            }
            _ = try? connection.simpleQuery("ROLLBACK")
        }
        var denied = 0
        for relation in relations {
            let (name, kind, column) = (relation[0], relation[1], relation[2])
            let may = role.grants[name] ?? ""
            for (letter, verb) in Self.verbs where !may.contains(letter) && (kind != "v" || verb == "SELECT") {
                denied += 1
                switch verb {
                case "SELECT": expectDenied("SELECT * FROM \(name) LIMIT 0")
                case "INSERT": expectDenied("INSERT INTO \(name) (\(column)) VALUES (NULL)")
                case "UPDATE": expectDenied("UPDATE \(name) SET \(column) = \(column) WHERE false")
                default: expectDenied("DELETE FROM \(name) WHERE false")
                }
            }
            if kind != "v" { expectDenied("TRUNCATE \(name)") }
        }
        #expect(denied > 50)
        for sql in [
            "CREATE TABLE mine (id int)", "CREATE ROLE another", "ALTER TABLE source_days ADD COLUMN mine int",
            "ALTER TABLE source_days DISABLE ROW LEVEL SECURITY", "DROP TABLE canonical_days", "CREATE SCHEMA mine",
            "SELECT grant_daybook_roles()", "COPY sources TO PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')",
        ] { expectDenied(sql) }
    }
}
