import AggregatorWorker
import Configuration
import Glibc
import Observability
import ServiceRuntime

@main
struct Main {
    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.contains("--version") {
            print("aggregator-worker \(BuildInfo.current)")
            return
        }
        if let unknown = arguments.first {
            print(usage)
            exit(["--help", "-h"].contains(unknown) ? ExitCode.ok : ExitCode.usage)
        }
        ShutdownSignal.install()
        do throws(ConfigurationErrors) {
            let configuration = try AggregatorConfiguration.read()
            let level = LogLevel(name: configuration.process.logLevel.rawValue) ?? .info
            exit(AggregatorServer.run(configuration, log: Log(service: "aggregator-worker", level: level)))
        } catch {
            StandardError.print("\(error)")
            exit(ExitCode.configuration)
        }
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
