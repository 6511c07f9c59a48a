import AggregatorWorker
import Configuration
import Glibc
import WorkerProgram

@main
struct Main {
    static func main() {
        exit(
            WorkerProgram.run(
                "aggregator-worker",
                usage: usage,
                arguments: Array(CommandLine.arguments.dropFirst()),
                read: { () throws(ConfigurationErrors) in try AggregatorConfiguration.read() },
                process: \.process,
                serve: { AggregatorServer.run($0, log: $1) }
            )
        )
    }

    private static let usage = """
        aggregator-worker: applies records of days from Kafka to PostgreSQL.

        It takes no arguments: it is set up by DAYBOOK_… variables (daybook config lists them) and runs until SIGTERM.
        Start more of them to spread the partitions over more processes.

          --version   print the version
          --help      print this

        Exit codes: 0 stopped in order, 69 a part could not start, 70 a part failed, 78 the settings are wrong,
        80 the grace period ended first.
        """
}
