import Configuration
import DevelopmentStack
import Domain
import Glibc
import Kafka
import MessageContract
import Postgres
import Storage

/// Publishes what a person decided about their account, and waits until the workers have applied it.
struct AccountChange {
    /// A record that all in-sync replicas have.
    struct Published: Sendable {
        let place: TopicPartition
        let offset: Int64
        let clusterID: String
        let event: EventID
        let receivedAt: Instant
    }

    /// Options that every command of this kind has.
    static let options: [OptionSpec] = [
        .flag("no-wait", "Return once the record is durable, without the database."),
        .value("wait", "TIME", "How long to wait for the workers.", default: "30s"),
        .flag("json", "The outcome as JSON."),
    ]

    static let environment: [(name: String, help: String)] = [
        (
            "DAYBOOK_KAFKA_BROKERS",
            "host:port,…, of a client that may write to the accounts topic; else the local stack's"
        ),
        ("DAYBOOK_DATABASE_URL", "to see whether it has been applied; else the local stack's"),
    ]

    static let statuses: [CommandSpec.Status] = [
        .init(.unavailable, "Kafka or PostgreSQL does not answer; what was not confirmed is safe to send again"),
        .init(.temporaryFailure, "it is durable, but the workers have not applied it in the time given"),
    ]

    let access: StackAccess
    let console: Console

    /// Does all of it and prints the outcome; `did` is what has been done once it is applied, such as `deleted`.
    static func run(
        _ record: AccountRecord,
        of user: UserID,
        did: String,
        _ arguments: Arguments,
        _ context: CommandContext
    ) throws -> ExitCode {
        let change = AccountChange(access: try StackAccess(context), console: context.console)
        let seconds = try arguments.duration("wait") ?? 30
        // Before anything is written: who can't see whether it was applied should know that first.
        let offsets = arguments.has("no-wait") ? nil : OffsetsStore(try change.access.connect())
        let published = try change.publish(record, of: user, route: "daybook \(arguments.command)")
        let isApplied = try offsets.map { try change.waitUntilApplied(published, $0, seconds: seconds) }
        if arguments.has("json") {
            context.console.print(json(published, of: user, isApplied: isApplied).text())
        } else {
            context.console.print(text(published, of: user, did: did, isApplied: isApplied))
        }
        guard isApplied == false else { return .success }
        throw CommandFailure(
            .temporaryFailure,
            "the record is durable, but no worker has applied it within \(seconds) s",
            next: "It will be applied, so there is no need to send it again: `daybook status` shows what holds it up."
        )
    }

    /// - Throws: where it is not confirmed; it may be in the log all the same.
    func publish(_ record: AccountRecord, of user: UserID, route: String) throws -> Published {
        let topic = Topic.accounts.name(prefix: access.configuration.topicPrefix)
        let brokers = try access.kafkaBrokers()
        let isTalkative = access.configuration.logLevel == .debug
        let properties = access.configuration.kafkaProperties.map { ($0.name, $0.value.reveal()) }
        let producer = try KafkaProducer(
            properties: [("bootstrap.servers", brokers)] + properties,
            topics: [topic]
        ) { line in
            if isTalkative { Console.standardError("\(line.facility) \(line.text)") }
        }
        try producer.prime(timeoutMilliseconds: 15_000)
        let clusterID = try producer.clusterID(timeoutMilliseconds: 10_000)
        let receivedAt = Instant.now
        let (event, report) = try SingleRecord(
            user: user,
            value: record.encoded(),
            schema: .account1,
            receivedAt: receivedAt,
            route: route
        ).publish(by: producer, timeoutMilliseconds: 40_000)
        guard let report, report.error == nil else {
            throw CommandFailure(
                .unavailable,
                "the record was not confirmed: \(report?.error?.reason ?? "no answer in time")",
                next: "Run it again, which is safe: applied twice it counts once. `daybook status` looks at Kafka."
            )
        }
        let isBelievable = try report.timestampType == .appended && !access.isDevelopmentBroker()
        let appended = isBelievable ? report.timestampMilliseconds : nil
        if let ahead = Self.secondsTooFarAhead(receivedAt, appendedAtMilliseconds: appended) {
            throw CommandFailure(
                .configuration,
                "this computer's clock is \(ahead) s ahead of the broker's: workers put the record aside as poison",
                next: "Set the clock right and run it again."
            )
        }
        return Published(
            place: TopicPartition(topic: topic, partition: report.partition),
            offset: report.offset,
            clusterID: clusterID,
            event: event,
            receivedAt: receivedAt
        )
    }

    /// Nil where readers take the record. Pure.
    static func secondsTooFarAhead(_ receivedAt: Instant, appendedAtMilliseconds appended: Int64?) -> Int? {
        guard let appended else { return nil }
        let ahead = receivedAt.microseconds / 1_000_000 - appended / 1000
        return ahead > Int64(RecordLimits.clockSeconds) ? Int(ahead) : nil
    }

    /// Whether the worker's position has passed the record before the time is up.
    private func waitUntilApplied(_ published: Published, _ offsets: OffsetsStore, seconds: Int) throws -> Bool {
        let name = PartitionName(topic: published.place.topic, partition: published.place.partition)
        let deadline = monotonicSeconds() + Double(seconds)
        repeat {
            if Self.isApplied(published, try offsets.look(name)) { return true }
            usleep(100_000)
        } while monotonicSeconds() < deadline
        return Self.isApplied(published, try offsets.look(name))
    }

    /// A position in another log says nothing about this record. Pure.
    static func isApplied(_ published: Published, _ state: PartitionState?) -> Bool {
        guard let state, state.clusterID == published.clusterID else { return false }
        return state.nextOffset > published.offset
    }

    static func text(_ published: Published, of user: UserID, did: String, isApplied: Bool?) -> String {
        let place = "\(published.place) at offset \(published.offset)"
        switch isApplied {
        case true?: return "\(user): \(did) (\(place), applied)"
        case false?: return "\(user): recorded (\(place), not applied yet)"
        case nil: return "\(user): recorded (\(place))"
        }
    }

    static func json(_ published: Published, of user: UserID, isApplied: Bool?) -> JSONDocument {
        .object([
            ("user", .string(user.description)), ("topic", .string(published.place.topic)),
            ("partition", .integer(Int(published.place.partition))), ("offset", .integer(Int(published.offset))),
            ("event_id", .string(published.event.description)),
            ("received_at", .string(published.receivedAt.description)),
            ("applied", isApplied.map { .bool($0) } ?? .null),
        ])
    }
}

extension Arguments {
    /// The first argument, as a user.
    func requiredUser() throws -> UserID {
        guard let user = UserID(positional(0) ?? "") else {
            throw CommandFailure.usage(
                "USER takes a UUID of 36 characters",
                next: "`daybook \(command) --help` shows what it takes."
            )
        }
        return user
    }
}
