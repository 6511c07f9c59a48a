import Glibc

/// Colours, or none: only on a terminal, and never against NO_COLOR (https://no-color.org).
struct TextStyle: Hashable, Sendable {
    let isColoured: Bool

    static let plain = TextStyle(isColoured: false)

    init(isColoured: Bool) {
        self.isColoured = isColoured
    }

    /// `isTerminal` is what `isatty` says of the stream.
    init(environment: [String: String], isTerminal: Bool) {
        let forbidden = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
        isColoured = isTerminal && !forbidden && environment["TERM"] != "dumb"
    }

    func heading(_ text: String) -> String { sgr("1", text) }
    func strong(_ text: String) -> String { sgr("1", text) }
    func faint(_ text: String) -> String { sgr("2", text) }
    func good(_ text: String) -> String { sgr("32", text) }
    func warning(_ text: String) -> String { sgr("33", text) }
    func bad(_ text: String) -> String { sgr("31", text) }

    private func sgr(_ code: String, _ text: String) -> String {
        isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}

/// Standard output and standard error, each with its own style. A reader that went away (EPIPE) is not an error.
struct Console: Sendable {
    let out: TextStyle
    let err: TextStyle
    /// Lines may redraw themselves there.
    let isOutputTerminal: Bool
    let isErrorTerminal: Bool
    private let write: @Sendable (Int32, String) -> Void

    init(environment: [String: String]) {
        self.init(
            out: TextStyle(environment: environment, isTerminal: isatty(STDOUT_FILENO) == 1),
            err: TextStyle(environment: environment, isTerminal: isatty(STDERR_FILENO) == 1),
            isOutputTerminal: isatty(STDOUT_FILENO) == 1 && environment["TERM"] != "dumb",
            isErrorTerminal: isatty(STDERR_FILENO) == 1 && environment["TERM"] != "dumb",
            write: { descriptor, text in writeAll(descriptor, text) }
        )
    }

    /// For tests: hands every piece of text, with the number of its stream, to a closure.
    init(
        out: TextStyle = .plain,
        err: TextStyle = .plain,
        isOutputTerminal: Bool = false,
        isErrorTerminal: Bool = false,
        write: @escaping @Sendable (Int32, String) -> Void
    ) {
        self.out = out
        self.err = err
        self.isOutputTerminal = isOutputTerminal
        self.isErrorTerminal = isErrorTerminal
        self.write = write
    }

    func print(_ line: String = "") {
        write(STDOUT_FILENO, line + "\n")
    }

    /// To standard error as it is, without an end of line: for what redraws itself.
    func raw(_ text: String) {
        write(STDERR_FILENO, text)
    }

    /// To standard output as it is.
    func draw(_ text: String) {
        write(STDOUT_FILENO, text)
    }

    /// Progress and errors: what a script that reads the output should not get.
    func note(_ line: String) {
        write(STDERR_FILENO, line + "\n")
    }

    /// For lines that come from threads of libraries.
    static func standardError(_ line: String) {
        writeAll(STDERR_FILENO, line + "\n")
    }

    func report(_ failure: CommandFailure, command: String?) {
        note(err.bad("daybook\(command.map { " " + $0 } ?? ""): ") + failure.message)
        if !failure.nextStep.isEmpty { note("  " + failure.nextStep) }
    }
}

private func writeAll(_ descriptor: Int32, _ text: String) {
    let bytes = Array(text.utf8)
    var start = 0
    while start < bytes.count {
        let count = bytes[start...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        if count > 0 {
            start += count
        } else if count < 0, errno != EINTR {
            return
        }
    }
}
