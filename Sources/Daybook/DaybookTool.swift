import Glibc
import Observability

/// The operator's program, but for its `main`.
public enum DaybookTool {
    public static let version = BuildInfo.current.version.description

    /// Runs one command line, without the program's name, and returns what the process should end with.
    public static func main(_ words: [String], environment: [String: String]) -> Int32 {
        // A reader that closes our output early must not kill us half way through stopping a stack.
        signal(SIGPIPE, SIG_IGN)
        let console = Console(environment: environment)
        return run(words, CommandContext(environment: environment, console: console)).rawValue
    }

    static func run(_ words: [String], _ context: CommandContext) -> ExitCode {
        let console = context.console
        let specs = CommandTable.commands.map { $0.spec }
        switch CommandParser(specs).parse(words) {
        case .version:
            console.print("daybook \(BuildInfo.current)")
            return .success
        case .overview(let group):
            console.print(HelpText.overview(specs, under: group, console.out))
            return .success
        case .help(let spec):
            console.print(HelpText.command(spec, console.out))
            return .success
        case .failure(let failure):
            console.report(failure, command: nil)
            return failure.exitCode
        case .run(let spec, let arguments):
            return run(spec, arguments, context)
        }
    }

    private static func run(_ spec: CommandSpec, _ arguments: Arguments, _ context: CommandContext) -> ExitCode {
        guard let command = CommandTable.commands.first(where: { $0.spec.path == spec.path }) else {
            return .software
        }
        do {
            return try command.run(arguments, context)
        } catch let failure as CommandFailure {
            context.console.report(failure, command: spec.name)
            return failure.exitCode
        } catch {
            let failure = CommandFailure.from(error)
            context.console.report(failure, command: spec.name)
            return failure.exitCode
        }
    }
}
