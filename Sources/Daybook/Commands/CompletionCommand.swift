/// Completion for shells.
enum CompletionCommand: Command {
    static let spec = CommandSpec(
        path: ["completion"],
        summary: "prints a script by which a shell completes commands and options",
        description: [
            "The script is made from the same table as the help, and belongs to this build: make it again after an upgrade."
        ],
        arguments: [ArgumentSpec("SHELL", "bash, zsh or fish.")],
        examples: [
            .init("eval \"$(daybook completion bash)\"", "In this shell, or in ~/.bashrc."),
            .init("daybook completion zsh > \"${fpath[1]}/_daybook\"", "For zsh, from its next start on."),
            .init("daybook completion fish > ~/.config/fish/completions/daybook.fish", "For fish."),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let name = arguments.positional(0) ?? ""
        guard let shell = CompletionScript.Shell(rawValue: name) else {
            let names = CompletionScript.Shell.allCases.map(\.rawValue)
            let guess = nearestWord(to: name, among: names).map { "Did you mean '\($0)'? " } ?? ""
            throw CommandFailure.usage(
                "there is no completion for '\(name)'",
                next: guess + "There is bash, zsh, fish."
            )
        }
        context.console.print(CompletionScript.text(shell, CommandTable.commands.map { $0.spec }))
        return .success
    }
}
