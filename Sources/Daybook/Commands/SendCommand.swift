import Authentication
import Configuration
import DevelopmentStack
import Domain
import Foundation
import Synchronization

/// Posts days to the ingest.
enum SendCommand: Command {
    static let spec = CommandSpec(
        path: ["send"],
        summary: "posts days to the ingest, from a file or made up",
        description: [
            "Posts to POST /v1/days as a phone would, and prints how many days were accepted and what was refused and "
                + "why. FILE holds one request body as JSON, or one a line; - is standard input. The user is the token's.",
            "--generate makes up a history instead: so many days up to today, for one user or for many, the same for "
                + "the same seed. For every second user a second source disagrees a little.",
            "A request that got a 503, or no answer at all, was not confirmed and is safe to send again: --retry does.",
        ],
        arguments: [ArgumentSpec("FILE", "Request bodies, or - for standard input.", required: false)],
        options: [
            .value("generate", "DAYS", "Make up that many days instead of reading a file."),
            .value("users", "N", "With --generate: for so many made-up users.", default: "1"),
            .value("user", "UUID", "Whose days. Default: the token's user, or a made-up one.", repeats: true),
            .value("seed", "N", "With --generate: which made-up history.", default: "1"),
            .value("parallel", "N", "Requests under way at a time.", default: "4"),
            .value("retry", "N", "How often to send a request again that was not confirmed.", default: "0"),
            .flag("dry-run", "Print the bodies, one a line, and post nothing."),
            .flag("json", "The totals as JSON."),
        ],
        environment: [
            ("DAYBOOK_URL", "http://host:port of the ingest; else the local stack's"),
            ("DAYBOOK_TOKEN", "used where no --user is given; else a token is minted (see `daybook token`)"),
        ],
        examples: [
            .init("daybook send day.json --user 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10", "One request for that user."),
            .init("daybook send --generate 365 --users 50", "A year of fifty people."),
            .init("daybook send --generate 30 --dry-run > bodies.jsonl", "What would be posted."),
        ],
        statuses: [
            .init(.failure, "something was refused"),
            .init(.noInput, "FILE can't be read"),
            .init(.unavailable, "the ingest did not answer"),
        ]
    )

    private struct Item: Sendable {
        let token: String
        let body: String
    }

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        let users = try users(arguments)
        let parallel = try arguments.integer("parallel", in: 1...64) ?? 4
        let retries = try arguments.integer("retry", in: 0...1000) ?? 0
        let bodies = try bodies(arguments, users, access)
        if arguments.has("dry-run") {
            for body in bodies { context.console.print(body.text) }
            return .success
        }
        let url = try access.url() + "/v1/days"
        let items = try withTokens(bodies, access)
        let start = monotonicSeconds()
        let totals = try post(items, url, parallel: parallel, retries: retries)
        let seconds = monotonicSeconds() - start
        if arguments.has("json") {
            context.console.print(totals.json(seconds: seconds).text())
        } else {
            for line in totals.text(seconds: seconds, context.console.out) { context.console.print(line) }
            let shown = Set(bodies.compactMap(\.user)).sorted().prefix(3)
            for user in shown { context.console.print("see them: \(context.programName) day show \(user)") }
        }
        if totals.unreachable > 0 {
            throw CommandFailure(
                .unavailable,
                "\(url) did not answer \(totals.unreachable) of \(totals.requests) requests: \(totals.lastReason)",
                next: "`daybook status` shows whether it runs; sending again is safe."
            )
        }
        return totals.isFine ? .success : .failure
    }

    private struct Body {
        /// Nil: the user of DAYBOOK_TOKEN.
        let user: UserID?
        let text: String
    }

    private static func users(_ arguments: Arguments) throws -> [UserID] {
        try arguments.values("user").map { text in
            guard let user = UserID(text) else {
                throw CommandFailure.usage("--user takes a UUID of 36 characters", next: "See `daybook send --help`.")
            }
            return user
        }
    }

    private static func bodies(
        _ arguments: Arguments,
        _ users: [UserID],
        _ access: StackAccess
    ) throws -> [Body] {
        if let days = try arguments.integer("generate", in: 1...400) {
            guard arguments.positionals.isEmpty else {
                throw CommandFailure.usage("FILE and --generate exclude each other", next: "Give one of them.")
            }
            let seed = UInt64(try arguments.integer("seed", in: 0...Int.max) ?? 1)
            let count = try arguments.integer("users", in: 1...1_000_000)
            guard users.isEmpty || count == nil else {
                throw CommandFailure.usage("--user and --users exclude each other", next: "Give one of them.")
            }
            let history = GeneratedHistory(
                users: users.isEmpty ? GeneratedHistory.users(count ?? 1, seed: seed) : users,
                days: days,
                lastDay: Instant.now.day(secondsFromUTC: 0),
                seed: seed
            )
            return history.requests.map { Body(user: $0.user, text: $0.body) }
        }
        guard let path = arguments.positional(0) else {
            throw CommandFailure.usage(
                "nothing to send",
                next: "Name a FILE, or - for standard input, or --generate DAYS."
            )
        }
        let user: UserID? =
            try users.first ?? (access.configuration.token == nil ? fallbackUser(access) : nil)
        return try split(read(path)).map { Body(user: user, text: $0) }
    }

    private static func fallbackUser(_ access: StackAccess) throws -> UserID {
        if let user = access.record?.user.flatMap({ UserID($0) }) { return user }
        throw CommandFailure.usage("whose days are these?", next: "Name --user UUID, or set DAYBOOK_TOKEN.")
    }

    private static func read(_ path: String) throws -> Data {
        if path == "-" { return FileHandle.standardInput.readDataToEndOfFile() }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw CommandFailure(
                .noInput,
                "can't read \(path)",
                next: "Check its name and rights; - is standard input."
            )
        }
        return data
    }

    /// One document, or one a line. What is no JSON is sent as it is: the ingest's answer says what is wrong with it.
    static func split(_ data: Data) -> [String] {
        let text = String(decoding: data, as: UTF8.self)
        let lines = text.split(whereSeparator: \.isNewline).filter { !$0.allSatisfy(\.isWhitespace) }
        let areDocuments = lines.allSatisfy { line in
            (try? JSONSerialization.jsonObject(with: Data(line.utf8))) != nil
        }
        return areDocuments ? lines.map(String.init) : [text]
    }

    private static func withTokens(_ bodies: [Body], _ access: StackAccess) throws -> [Item] {
        var tokens: [UserID: String] = [:]
        var minter: TokenMinter?
        return try bodies.map { body in
            guard let user = body.user else {
                return Item(token: access.configuration.token?.reveal() ?? "", body: body.text)
            }
            if let token = tokens[user] { return Item(token: token, body: body.text) }
            let current = try minter ?? access.tokenMinter()
            minter = current
            let token = try current.mint(subject: user.description, now: .now, validFor: 12 * 3600)
            tokens[user] = token
            return Item(token: token, body: body.text)
        }
    }

    private static func post(_ items: [Item], _ url: String, parallel: Int, retries: Int) throws -> SendTotals {
        let tally = Tally()
        try Parallel.forEach(below: items.count, width: parallel) { index in
            let item = items[index]
            var attempt = 0
            while true {
                let start = monotonicSeconds()
                let result = Self.send(item, url)
                if attempt < retries, Self.isUnconfirmed(result) {
                    attempt += 1
                    usleep(useconds_t(min(2000, 50 << min(attempt, 6)) * 1000))
                    continue
                }
                let seconds = monotonicSeconds() - start
                tally.totals.withLock { $0.add(result, bytes: item.body.utf8.count, seconds: seconds) }
                return
            }
        }
        return tally.totals.withLock { $0 }
    }

    private final class Tally: Sendable {
        let totals = Mutex(SendTotals())
    }

    private static func isUnconfirmed(_ result: Result<HTTPCall.Answer, HTTPCall.Failure>) -> Bool {
        switch result {
        case .success(let answer): answer.status == 503 || answer.status == 429
        case .failure: true
        }
    }

    private static func send(_ item: Item, _ url: String) -> Result<HTTPCall.Answer, HTTPCall.Failure> {
        let call = HTTPCall.days(url: url, token: item.token, body: item.body)
        return Result { () throws(HTTPCall.Failure) in try call.send() }
    }
}

extension HTTPCall {
    /// A post of days.
    static func days(url: String, token: String, body: String) -> HTTPCall {
        HTTPCall(
            "POST",
            url,
            headers: ["Authorization": "Bearer \(token)", "Content-Type": "application/json"],
            body: Data(body.utf8)
        )
    }
}
