import Configuration
import Glibc
import Observability
import ServiceRuntime
import WakeWorker

@main
struct Main {
    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.contains("--version") {
            print("wake-worker \(BuildInfo.current.version) (build \(BuildInfo.current.number))")
            return
        }
        if let unknown = arguments.first {
            print(usage)
            exit(["--help", "-h"].contains(unknown) ? ExitCode.ok : ExitCode.usage)
        }
        ShutdownSignal.install()
        do throws(ConfigurationErrors) {
            let configuration = try WakeConfiguration.read()
            let level = LogLevel(name: configuration.process.logLevel.rawValue) ?? .info
            exit(WakeServer.run(configuration, log: Log(service: "wake-worker", level: level)))
        } catch {
            StandardError.print("\(error)")
            exit(ExitCode.configuration)
        }
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
