import Configuration
import Glibc
import WakeWorker
import WorkerProgram

@main
struct Main {
    static func main() {
        exit(
            WorkerProgram.run(
                "wake-worker",
                usage: usage,
                arguments: Array(CommandLine.arguments.dropFirst()),
                read: { () throws(ConfigurationErrors) in try WakeConfiguration.read() },
                process: \.process,
                serve: { WakeServer.run($0, log: $1) }
            )
        )
    }

    private static let usage = """
        wake-worker: sends silent pushes to phones whose data has gone stale.

        It takes no arguments: it is set up by DAYBOOK_… variables (daybook config lists them) and runs until SIGTERM.
        Start more of them to send more; nobody is woken twice.

          --version   print the version
          --help      print this

        Exit codes: 0 stopped in order, 69 a part could not start, 70 a part failed, 78 the settings are wrong,
        80 the grace period ended first.
        """
}
