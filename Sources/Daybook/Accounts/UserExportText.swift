import Domain
import MessageContract
import Storage

/// What is known of a user, as JSON. Pure.
enum UserExportText {
    /// A stretch of a topic in which records of the user may lie.
    struct LogPlace: Hashable, Sendable {
        let topic: String
        let partition: Int32
        let begin: Int64
        let end: Int64
        let retentionDays: Int?
        /// Offsets of the user's records; nil where nobody looked.
        var found: [Int64]?
    }

    static func json(
        _ user: UserID,
        _ export: UserExport,
        log: [LogPlace]?,
        letters: [KnownLetter]?,
        at now: Instant
    ) -> JSONDocument {
        .object([
            ("user", .string(user.description)), ("exported_at", .string(now.description)),
            ("account", export.account.map(account) ?? .null),
            ("sources", .array(export.sources.map { source($0.source, $0.state) })),
            ("connections", .array(export.connections.map(connection))),
            ("source_days", .array(export.days.flatMap { day in day.rows.map { row(day.day, $0) } })),
            ("canonical_days", .array(export.canonical.map(canonical))),
            ("devices", .array(export.devices.map(UserDevicesCommand.json))),
            ("other_rows", others(export.others)),
            ("log", log.map { .array($0.map(place)) } ?? .null),
            ("dead_letters", letters.map { .array($0.map { .object(DeadLetterText.members($0)) }) } ?? .null),
        ])
    }

    private static func moment(_ microseconds: Int64) -> JSONDocument {
        microseconds > 0 ? .string(Instant(microseconds: microseconds).description) : .null
    }

    private static func watermark(_ version: Version) -> JSONDocument {
        version.rawValue > 0 ? .string(version.instant.description) : .null
    }

    private static func account(_ account: Account) -> JSONDocument {
        .object([
            ("deleted_until", watermark(account.deleted)),
            (
                "pins",
                .array(
                    account.preferences.pins.map { pin in
                        .object([
                            ("metric", .string(pin.metric.description)),
                            ("source", pin.source.map { .string($0.description) } ?? .null),
                            ("set_at", .string(pin.version.instant.description)),
                        ])
                    }
                )
            ),
        ])
    }

    private static func source(_ source: Source, _ state: AccountSource) -> JSONDocument {
        .object([
            ("source", .string(source.description)), ("deleted_until", watermark(state.deleted)),
            ("disconnected_at", moment(state.disconnectedAt)),
        ])
    }

    private static func connection(
        _ connection: (provenance: Provenance, lastPushAt: Int64, lastDataAt: Int64)
    ) -> JSONDocument {
        .object([
            ("source", .string(connection.provenance.source.description)),
            ("origin", .string(connection.provenance.origin)), ("last_push_at", moment(connection.lastPushAt)),
            ("last_data_at", moment(connection.lastDataAt)),
        ])
    }

    private static func row(_ day: CalendarDay, _ row: SourceRow) -> JSONDocument {
        let values = row.state.values.mask.map { metric in
            (
                metric.description,
                JSONDocument.object([
                    ("value", row.state.values[metric].map { .tenths($0) } ?? .null),
                    ("read_at", row.state.version(of: metric).map { .string($0.instant.description) } ?? .null),
                    ("day_over", .bool(row.state.closed.has(metric))),
                ])
            )
        }
        return .object([
            ("date", .string(day.description)), ("source", .string(row.provenance.source.description)),
            ("origin", .string(row.provenance.origin)), ("values", .object(values)),
        ])
    }

    private static func canonical(_ stored: DayReads.StoredCanonicalDay) -> JSONDocument {
        let values = stored.day.values.mask.map { metric in
            (
                metric.description,
                JSONDocument.object([
                    ("value", stored.day.values[metric].map { .tenths($0) } ?? .null),
                    ("source", stored.day.winner(of: metric).map { .string($0.source.description) } ?? .null),
                    ("origin", stored.day.winner(of: metric).map { .string($0.origin) } ?? .null),
                ])
            )
        }
        return .object([
            ("date", .string(stored.key.day.description)), ("final", .bool(stored.day.isFinal)),
            ("rule_version", .integer(Int(stored.ruleVersion))), ("values", .object(values)),
        ])
    }

    private static func others(_ rows: [UserExport.OtherRow]) -> JSONDocument {
        let tables = Dictionary(grouping: rows, by: \.table).sorted { $0.key < $1.key }
        return .object(tables.map { table, rows in (table, .array(rows.map { .raw($0.json) })) })
    }

    private static func place(_ place: LogPlace) -> JSONDocument {
        .object([
            ("topic", .string(place.topic)), ("partition", .integer(Int(place.partition))),
            ("begin_offset", .integer(Int(place.begin))), ("end_offset", .integer(Int(place.end))),
            ("default_retention_days", place.retentionDays.map { .integer($0) } ?? .null),
            ("searched", .bool(place.found != nil)),
            ("offsets", place.found.map { .array($0.map { .integer(Int($0)) }) } ?? .null),
        ])
    }
}
