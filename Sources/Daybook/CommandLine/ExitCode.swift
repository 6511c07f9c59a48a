/// What the program ends with; the numbers of sysexits.h, so that scripts can tell the cases apart.
public struct ExitCode: Hashable, Sendable {
    public let rawValue: Int32

    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    public static let success = ExitCode(rawValue: 0)
    /// The question was answered, and the answer is no: a check failed, a part is not ready, an item was refused.
    public static let failure = ExitCode(rawValue: 1)
    /// The command line was wrong.
    public static let usage = ExitCode(rawValue: 64)
    /// The input could not be read as what it should be.
    public static let dataError = ExitCode(rawValue: 65)
    /// An input file is missing or unreadable.
    public static let noInput = ExitCode(rawValue: 66)
    /// A server that is needed does not answer, or nothing is running.
    public static let unavailable = ExitCode(rawValue: 69)
    /// A fault of Daybook's own.
    public static let software = ExitCode(rawValue: 70)
    /// A file or a database object could not be made.
    public static let cannotCreate = ExitCode(rawValue: 73)
    /// Something else has to end first, such as another `daybook up`.
    public static let temporaryFailure = ExitCode(rawValue: 75)
    public static let noPermission = ExitCode(rawValue: 77)
    /// A setting is missing or wrong.
    public static let configuration = ExitCode(rawValue: 78)
}

/// Why a command ended without doing its work, and what the reader can do about it.
struct CommandFailure: Error, Hashable, Sendable {
    let exitCode: ExitCode
    let message: String
    /// What to do next; one or more whole sentences.
    let nextStep: String

    init(_ exitCode: ExitCode, _ message: String, next nextStep: String) {
        self.exitCode = exitCode
        self.message = message
        self.nextStep = nextStep
    }

    static func usage(_ message: String, next nextStep: String) -> CommandFailure {
        CommandFailure(.usage, message, next: nextStep)
    }
}
