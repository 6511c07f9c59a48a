import Domain

/// What stood on the command line behind the command's name, checked against its spec.
struct Arguments: Hashable, Sendable {
    let command: String
    private(set) var positionals: [String] = []
    private var flags: Set<String> = []
    private var values: [String: [String]] = [:]

    init(command: String) {
        self.command = command
    }

    mutating func add(positional: String) {
        positionals.append(positional)
    }

    mutating func set(flag: String) {
        flags.insert(flag)
    }

    mutating func add(value: String, to option: String) {
        values[option, default: []].append(value)
    }

    func has(_ flag: String) -> Bool {
        flags.contains(flag)
    }

    func value(_ option: String) -> String? {
        values[option]?.last
    }

    /// An option that takes one of a few words; throws a usage failure that names them.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ option: String,
        else usual: Choice
    ) throws(CommandFailure) -> Choice {
        guard let word = value(option) else { return usual }
        if let choice = Choice(rawValue: word) { return choice }
        let names = Choice.allCases.map(\.rawValue).joined(separator: ", ")
        throw CommandFailure.usage("--\(option) takes \(names), not '\(word)'", next: "Take one of them.")
    }

    func values(_ option: String) -> [String] {
        values[option] ?? []
    }

    func positional(_ index: Int) -> String? {
        positionals.indices.contains(index) ? positionals[index] : nil
    }

    /// A whole number in the range, or nil where the option is not given.
    func integer(_ option: String, in range: ClosedRange<Int>) throws(CommandFailure) -> Int? {
        guard let text = value(option) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw bad(option, text, "a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    func day(_ option: String) throws(CommandFailure) -> CalendarDay? {
        guard let text = value(option) else { return nil }
        guard let day = CalendarDay(text) else { throw bad(option, text, "a day as YYYY-MM-DD") }
        return day
    }

    func user(_ option: String) throws(CommandFailure) -> UserID? {
        guard let text = value(option) else { return nil }
        guard let user = UserID(text) else { throw bad(option, text, "a UUID of 36 characters") }
        return user
    }

    /// Seconds from `90`, `90s`, `15m`, `12h` or `30d`.
    func duration(_ option: String) throws(CommandFailure) -> Int? {
        guard let text = value(option) else { return nil }
        let factors: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let factor = text.last.flatMap { factors[$0] }
        let digits = factor == nil ? text[...] : text.dropLast()
        guard let number = Int(digits), number > 0 else {
            throw bad(option, text, "a length of time such as 90s, 15m, 12h or 30d")
        }
        let (seconds, overflow) = number.multipliedReportingOverflow(by: factor ?? 1)
        guard !overflow, seconds <= 3650 * 86_400 else {
            throw bad(option, text, "a length of time up to 3650d")
        }
        return seconds
    }

    private func bad(_ option: String, _ text: String, _ wanted: String) -> CommandFailure {
        .usage(
            "--\(option) takes \(wanted), not '\(text)'",
            next: "`daybook \(command) --help` shows what it takes."
        )
    }
}
