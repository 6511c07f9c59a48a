import Configuration
import Domain
import MessageContract
import Postgres
import Storage
import TimeZones
import WakeRules
import WakeWorker

/// How the commands around wakes look at the database: as a worker does that has the same settings.
struct WakeAccess {
    let store: WakeStore
    let reports: WakeReports
    let round: WakeRound
    let now: Instant

    static let environment: [(name: String, help: String)] = [
        ("DAYBOOK_DATABASE_URL", "else the local stack's"),
        ("DAYBOOK_WAKE_SCHEDULE, …_MINUTE, …_WINDOW_S, …_QUIET_HOURS", "as the workers have them"),
    ]

    /// The store alone, with nothing read: a pause must not depend on what else can be read.
    static func store(_ access: StackAccess) throws -> WakeStore {
        try store(access.connect(), access)
    }

    private static func store(_ connection: PostgresConnection, _ access: StackAccess) -> WakeStore {
        let zones = ZoneTable()
        return WakeStore(
            connection,
            topic: Topic.daysLive.name(prefix: access.configuration.topicPrefix),
            zoneOffset: { zones.offset($0, at: $1) }
        )
    }

    /// Reads what a worker reads before it decides, and writes nothing.
    init(_ access: StackAccess) throws {
        let connection = try access.connect()
        store = Self.store(connection, access)
        reports = WakeReports(connection)
        let rules = access.configuration.wake
        let shared = try store.shared(
            ownClock: Instant.now.microseconds,
            retentionSeconds: rules.logDays * 86_400
        )
        now = shared.now
        var policy = rules.policy
        // The local stack's worker sends all the time.
        if !access.configuration.wakeScheduleIsGiven, access.record != nil, access.configuration.databaseURL == nil {
            policy.schedule = SendSchedule(.continuous)
        }
        round = WakeRound(
            policy: policy,
            pipeline: shared.pipeline,
            leaseSeconds: 60,
            worker: UUID128(high: 0, low: 0)
        )
    }
}

/// Text and JSON of what a decision says. Pure.
enum WakeText {
    static func duration(_ seconds: Int) -> String {
        let magnitude = abs(seconds)
        let text =
            switch magnitude {
            case ..<60: "\(magnitude) s"
            case ..<3600: "\(magnitude / 60) min"
            case ..<172_800: "\(magnitude / 3600) h \(magnitude % 3600 / 60) min"
            default: "\(magnitude / 86_400) d"
            }
        return seconds < 0 ? "in " + text : text + " ago"
    }

    static func ago(_ time: Instant?, _ now: Instant) -> String {
        guard let time else { return "never" }
        return duration(time.seconds(until: now))
    }

    static func action(_ action: WakeDecision.Action, _ now: Instant) -> String {
        switch action {
        case .wake(let tokens): "would be woken now, by \(counted(tokens.count, "push", "pushes"))"
        case .wait(let until): "looked at again at \(until.short) (\(ago(until, now)))"
        case .never: "not looked at before something changes: a token, or a connection of an on-device source"
        }
    }

    /// In one word or two, for a table.
    static func short(_ decision: WakeDecision) -> String {
        switch decision.action {
        case .wake: "wake"
        case .wait: decision.heldBack.map { "held back: \($0.rawValue)" } ?? "wait: \(decision.reason?.rawValue ?? "")"
        case .never: "leave: \(decision.reason?.rawValue ?? "")"
        }
    }

    static func json(_ look: WakeLook) -> JSONDocument {
        let decision = look.decision
        let next: JSONDocument
        if case .wait(let until) = decision.action { next = .string(until.description) } else { next = .null }
        var wakes = false
        if case .wake = decision.action { wakes = true }
        return .object([
            ("user", .string(look.facts.user.description)), ("wakes_now", .bool(wakes)), ("next_look", next),
            ("held_back", decision.heldBack.map { .string($0.rawValue) } ?? .null),
            ("unanswered", .integer(decision.schedule.unanswered)),
            (
                "conditions",
                .array(
                    decision.conditions.map { condition in
                        .object([
                            ("name", .string(condition.name.rawValue)), ("holds", .bool(condition.holds)),
                            ("figures", .string(condition.figures.description)),
                            ("from", condition.from.map { .string($0.description) } ?? .null),
                        ])
                    }
                )
            ),
        ])
    }
}
