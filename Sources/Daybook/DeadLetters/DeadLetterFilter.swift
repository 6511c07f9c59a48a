import Domain
import Storage

/// Which dead letters a command means. Pure.
struct DeadLetterFilter: Hashable, Sendable {
    /// Where a record stood: `TOPIC/PARTITION/OFFSET`.
    struct Name: Hashable, Sendable {
        let topic: String
        let partition: Int32
        let offset: Int64

        init?(_ text: String) {
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 3, !parts[0].isEmpty, let partition = Int32(parts[1]), partition >= 0,
                let offset = Int64(parts[2]), offset >= 0
            else { return nil }
            topic = String(parts[0])
            self.partition = partition
            self.offset = offset
        }
    }

    /// Nil for all.
    var name: Name?
    var reasons: Set<String> = []
    var topics: Set<String> = []
    var builds: Set<String> = []
    var user: UserID?
    /// When the records had arrived: from, and up to but not including.
    var since: Instant?
    var until: Instant?

    static let options: [OptionSpec] = [
        .value("reason", "CODE", "Only with this reason, such as bad_json.", repeats: true),
        .value("topic", "TOPIC", "Only records of this topic.", repeats: true),
        .value("build", "BUILD", "Only those that a worker of this build put aside.", repeats: true),
        .value("user", "USER", "Only this user's."),
        .value("since", "TIME", "Only what had arrived at this time (RFC 3339, or such as 2h ago) or later."),
        .value("until", "TIME", "Only what had arrived before this time."),
    ]

    static let argument = ArgumentSpec(
        "LETTER",
        "TOPIC/PARTITION/OFFSET, as `daybook dead-letters list --each` shows it; or all."
    )

    /// Takes the words of a command with `options`; `named`: and with `LETTER` as its first argument.
    init(_ arguments: Arguments, named: Bool, now: Instant) throws {
        if named, let text = arguments.positional(0), text != "all" {
            guard let name = Name(text) else {
                throw CommandFailure.usage(
                    "'\(text)' is no dead letter",
                    next: "LETTER takes TOPIC/PARTITION/OFFSET, or all: `daybook dead-letters list --each` shows them."
                )
            }
            self.name = name
        }
        reasons = Set(arguments.values("reason"))
        topics = Set(arguments.values("topic"))
        builds = Set(arguments.values("build"))
        user = try arguments.user("user")
        since = try arguments.moment("since", now: now)
        until = try arguments.moment("until", now: now)
    }

    init() {}

    func takes(_ letter: DeadLetter) -> Bool {
        if let name {
            let identity = letter.identity
            guard identity.topic == name.topic, identity.partition == name.partition, identity.offset == name.offset
            else { return false }
        }
        if !reasons.isEmpty && !reasons.contains(letter.reason) { return false }
        if !topics.isEmpty && !topics.contains(letter.identity.topic) { return false }
        if !builds.isEmpty && !builds.contains(letter.build) { return false }
        if let user, letter.user != user { return false }
        if let since, letter.arrived < since { return false }
        if let until, letter.arrived >= until { return false }
        return true
    }
}

extension Arguments {
    /// A time as RFC 3339, or as a length of time ago.
    func moment(_ option: String, now: Instant) throws(CommandFailure) -> Instant? {
        guard let text = value(option) else { return nil }
        if let instant = Instant(rfc3339: text) { return instant }
        guard let ago = try? duration(option) else {
            throw .usage(
                "--\(option) takes a time such as \(now), or a length of time ago such as 2h, not '\(text)'",
                next: "`daybook \(command) --help` shows what it takes."
            )
        }
        return now.advanced(bySeconds: -ago)
    }
}
