import Configuration

/// Every setting.
enum ConfigCommand: Command {
    static let spec = CommandSpec(
        path: ["config"],
        summary: "lists every setting with its type, default and range",
        description: [
            "Prints the table of all settings of all programs, made from the same catalogue that the programs read by. "
                + "With --check the environment (and DAYBOOK_CONFIG_FILE) is read as the named program would, and "
                + "everything that is wrong is listed; values are never shown."
        ],
        options: [
            .value("format", "FORMAT", "text, markdown or json.", default: "text"),
            .value("check", "PROGRAM", "ingest-service, aggregator-worker or daybook."),
        ],
        examples: [
            .init("daybook config | less", "To read."),
            .init("daybook config --check ingest-service", "Before a deployment, with its environment."),
            .init("daybook config --format markdown > docs/CONFIGURATION.md", "How that file is made."),
        ],
        statuses: [.init(.configuration, "with --check: a setting is missing or wrong")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        if let name = arguments.value("check") {
            guard let program = Program(rawValue: name) else {
                let names = Program.allCases.map(\.rawValue).joined(separator: ", ")
                throw CommandFailure.usage("there is no program '\(name)'", next: "There is: \(names).")
            }
            try check(program, context.environment)
            context.console.print("the settings of \(name) are in order")
            return .success
        }
        let style = try arguments.choice("format", else: ConfigurationTable.Style.text)
        // It ends with a line feed, and so does `print`.
        context.console.print(String(ConfigurationTable.render(style).dropLast()))
        return .success
    }

    private static func check(_ program: Program, _ environment: [String: String]) throws {
        switch program {
        case .ingest: _ = try IngestConfiguration.read(environment: environment)
        case .aggregator: _ = try AggregatorConfiguration.read(environment: environment)
        case .wake: _ = try WakeConfiguration.read(environment: environment)
        case .tool: _ = try ToolConfiguration.read(environment: environment)
        }
    }
}
