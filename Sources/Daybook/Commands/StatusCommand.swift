import Configuration
import DevelopmentStack
import Domain
import Kafka
import MessageContract
import Postgres
import Storage

/// What runs and how far it is.
enum StatusCommand: Command {
    static let spec = CommandSpec(
        path: ["status"],
        summary: "shows the parts, the lag by partition, the wake queue and the database",
        description: [
            "Shows every part of the local stack with its pid and whether it is ready, how many records of each "
                + "partition the workers have not applied yet, and whether the database answers and has this build's "
                + "tables.",
            "Where no local stack runs but DAYBOOK_DATABASE_URL and DAYBOOK_KAFKA_BROKERS are set, it looks at those. "
                + "Lag alone is no fault; a part that is not ready, a partition that the brake has stopped, a record that "
                + "waits for longer than --max-lag, or a database that is behind is one.",
            "BEHIND is how long ago the first record that waits had arrived. With --watch it "
                + "looks again and again, and shows rates since the last look: on a terminal in place, elsewhere one "
                + "block below the other. The exit status is that of the last look.",
        ],
        options: [
            .flag("all", "Show the partitions without lag, too."),
            .value("max-lag", "TIME", "A record that waits for longer is a fault.", default: "5m"),
            .flag("watch", "Look again until Ctrl-C."),
            .value("interval", "TIME", "With --watch: between two looks.", default: "2s"),
            .value("count", "N", "With --watch: so many looks, then end."),
            .flag("json", "Everything as JSON."),
        ],
        environment: [
            ("DAYBOOK_DATABASE_URL", "else the local stack's"),
            ("DAYBOOK_KAFKA_BROKERS", "else the local stack's"),
        ],
        examples: [
            .init("daybook status", "A look."),
            .init("daybook status --watch", "While something is going on."),
            .init("daybook status --json | grep '\"lag\"'", "For a script."),
        ],
        statuses: [
            .init(.success, "everything runs and answers"),
            .init(.failure, "something does not"),
            .init(.unavailable, "nothing runs, and no servers are named"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        guard access.record != nil || access.configuration.databaseURL != nil else {
            throw CommandFailure(
                .unavailable,
                "nothing runs in \(access.folder.path)",
                next: "Start it with `daybook up`, or set DAYBOOK_DATABASE_URL and DAYBOOK_KAFKA_BROKERS."
            )
        }
        let limit = try arguments.duration("max-lag") ?? 300
        guard arguments.has("watch") else {
            let status = collect(access, limit)
            show(status, arguments, context.console)
            return status.isFine ? .success : .failure
        }
        return try watch(access, limit, arguments, context.console)
    }

    private static func watch(
        _ access: StackAccess,
        _ limit: Int,
        _ arguments: Arguments,
        _ console: Console
    ) throws -> ExitCode {
        let signals = StopSignals()
        let interval = try arguments.duration("interval") ?? 2
        let count = try arguments.integer("count", in: 1...1_000_000_000) ?? .max
        var before: (status: StackStatus, at: Double)?
        for look in 1...count {
            let now = monotonicSeconds()
            var status = collect(access, limit)
            if let before { status.measure(since: before.status, seconds: now - before.at) }
            // Home, then the picture, then away with what is left of the old one: no flicker.
            if console.isOutputTerminal { console.draw("\u{1B}[H\u{1B}[2J") }
            if !arguments.has("json") { console.print(console.out.faint(DayText.moment(.now))) }
            show(status, arguments, console)
            if !console.isOutputTerminal && !arguments.has("json") { console.print() }
            before = (status, now)
            if look == count || signals.wait(milliseconds: interval * 1000) != nil { break }
        }
        return before?.status.isFine ?? true ? .success : .failure
    }

    private static func show(_ status: StackStatus, _ arguments: Arguments, _ console: Console) {
        if arguments.has("json") {
            console.print(status.json.text())
        } else {
            for line in status.text(console.out, allPartitions: arguments.has("all")) { console.print(line) }
        }
    }

    private static func collect(_ access: StackAccess, _ limit: Int) -> StackStatus {
        var status = StackStatus()
        status.maximumLagSeconds = limit
        if let record = access.record {
            status.local = "up since \(record.startedAt), pid \(record.supervisor.pid), in \(access.folder.path)"
            status.parts = record.parts.map(look)
        }
        let offsets = database(access, &status)
        do {
            status.lags = try lags(access, offsets)
            try ask(&status.lags, access)
        } catch {
            status.kafkaProblem = CommandFailure.from(error).message
        }
        return status
    }

    private static func look(_ part: StackRecord.Part) -> StackStatus.Part {
        let isAlive = part.process?.isRunning ?? false
        return StackStatus.Part(
            name: part.name,
            pid: part.process.map { Int($0.pid) },
            address: part.address ?? part.adminAddress,
            isAlive: isAlive,
            isReady: isAlive ? part.adminAddress.map { HTTPCall.isReady(adminAddress: $0) } : nil,
            logPath: part.logPath
        )
    }

    /// Also returns where the workers are; empty where that can't be read.
    private static func database(_ access: StackAccess, _ status: inout StackStatus) -> [PartitionName: PartitionState]
    {
        let newest = Int(Migrator.newest)
        do {
            let connection = try access.connect()
            let migrator = Migrator(connection)
            let version = try migrator.appliedVersion()
            var problem: String?
            do {
                try migrator.check()
            } catch let failure as Migrator.Failure {
                problem = failure.description
            }
            status.database = .init(isReachable: true, migration: Int(version), newest: newest, problem: problem)
            guard version > 0 else { return [:] }
            if problem == nil {
                status.database?.health = try DatabaseHealth.read(connection, now: Instant.now.microseconds)
            }
            let all = try OffsetsStore(connection).all()
            return Dictionary(all.map { ($0.name, $0.state) }, uniquingKeysWith: { first, _ in first })
        } catch {
            let reason = CommandFailure.from(error).message
            status.database = .init(isReachable: false, migration: nil, newest: newest, problem: reason)
            return [:]
        }
    }

    private static func lags(
        _ access: StackAccess,
        _ offsets: [PartitionName: PartitionState]
    ) throws -> [StackStatus.Lag] {
        let admin = try access.kafkaAdmin()
        let cluster = try admin.clusterID(timeoutMilliseconds: 5000)
        return try Topic.allCases.filter(\.isApplied).flatMap { topic -> [StackStatus.Lag] in
            let name = topic.name(prefix: access.configuration.topicPrefix)
            let count = try admin.describe(name, timeoutMilliseconds: 5000).partitions
            return try (0..<Int32(clamping: count)).map { partition in
                let place = TopicPartition(topic: name, partition: partition)
                let log = try admin.watermarks(place, timeoutMilliseconds: 5000)
                return lag(offsets[PartitionName(topic: name, partition: partition)], place, log, cluster)
            }
        }
    }

    /// Looks at the first record that waits, of those partitions where most do.
    private static func ask(_ lags: inout [StackStatus.Lag], _ access: StackAccess) throws {
        let waiting = lags.indices.filter { lags[$0].records > 0 }.sorted { lags[$0].records > lags[$1].records }
        guard !waiting.isEmpty else { return }
        let reader = try access.kafkaReader()
        for index in waiting.prefix(8) {
            let lag = lags[index]
            let place = TopicPartition(topic: lag.topic, partition: Int32(clamping: lag.partition))
            // A log that says nothing now is looked at again the next time.
            let record = try? reader.record(place, at: lag.endOffset - lag.records, timeoutMilliseconds: 3000)
            guard let header = record?.header(named: HeaderName.receivedAt),
                let arrived = Instant(rfc3339: String(decoding: header, as: UTF8.self))
            else { continue }
            lags[index].seconds = Int(clamping: max(0, Instant.now.microseconds - arrived.microseconds) / 1_000_000)
        }
    }

    /// A position in another log counts for nothing: all of this one is still to be read. Pure.
    static func lag(
        _ state: PartitionState?,
        _ place: TopicPartition,
        _ log: KafkaWatermarks,
        _ cluster: String
    ) -> StackStatus.Lag {
        let isSameLog = state?.clusterID == cluster && (state?.nextOffset ?? 0) <= log.high
        let next = isSameLog ? state?.nextOffset : nil
        let applied = state.map(\.appliedThrough).flatMap { $0 > 0 ? Instant(microseconds: $0) : nil }
        let records = max(0, log.high - max(next ?? log.low, log.low))
        return StackStatus.Lag(
            topic: place.topic,
            partition: Int(place.partition),
            records: records,
            nextOffset: next,
            endOffset: log.high,
            isBraked: state?.brakedAt != nil,
            appliedThrough: applied.map { DayText.moment($0) },
            epoch: state?.epoch
        )
    }
}
