import Authentication
import Configuration
import Domain
import Glibc
import Kafka
import Observability
import ServiceRuntime
import TimeZones

/// The executable `ingest-service`, apart from `main`.
public enum IngestProgram {
    static let usage = """
        usage: ingest-service [--help | --version]

        Takes days over HTTP, checks them and writes them to Kafka. It is configured by the environment (DAYBOOK_…) or by
        a file that DAYBOOK_CONFIG_FILE names: `daybook config` lists every setting. The least that it needs:

          DAYBOOK_KAFKA_BROKERS      the brokers to ask first, host:port
          DAYBOOK_JWT_HS256_SECRET   the key that tokens are signed with, 32 bytes or more; or public keys, by
                                     DAYBOOK_JWT_PEM_FILES, DAYBOOK_JWT_JWKS_FILE or DAYBOOK_JWT_JWKS_URL

        It logs JSON lines on standard error, and answers /livez, /readyz and /metrics on DAYBOOK_ADMIN_ADDRESS.
        Exit status: 0 stopped in order, 64 wrong arguments, 69 could not start, 78 wrong settings, 80 stopped by force.

        """

    /// Runs the program and returns the status to exit with. Blocks until it is told to stop.
    public static func run(arguments: [String]) -> Int32 {
        switch arguments.first {
        case nil: break
        case "--help", "-h":
            print(usage, to: STDOUT_FILENO)
            return ExitCode.ok
        case "--version":
            print("ingest-service \(BuildInfo.current)\n", to: STDOUT_FILENO)
            return ExitCode.ok
        default:
            print("ingest-service: this argument is not known; it takes --help or --version only\n", to: STDERR_FILENO)
            return ExitCode.usage
        }
        ShutdownSignal.install()
        KafkaMemory.keepFreedPages(block: 4, total: 8)
        do throws(ConfigurationErrors) {
            return serve(try IngestConfiguration.read())
        } catch {
            print("ingest-service: \(error)\n", to: STDERR_FILENO)
            return ExitCode.configuration
        }
    }

    private static func serve(_ configuration: IngestConfiguration) -> Int32 {
        let problems = check(configuration)
        guard problems.isEmpty else {
            for problem in problems { print("ingest-service: \(problem)\n", to: STDERR_FILENO) }
            return ExitCode.configuration
        }
        let level = LogLevel(name: configuration.process.logLevel.rawValue) ?? .info
        let log = Log(service: "ingest-service", level: level)
        let connections = configuration.http.maxConnections
        if let limit = DescriptorLimit.raise(), limit < connections + DescriptorLimit.reserve {
            log.warning("fewer descriptors than connections: raise ulimit -n", [.limit: .integer(limit)])
        }
        let registry = MetricsRegistry()
        ProcessMetrics.register(in: registry)
        let services = IngestServer.services(configuration, registry: registry, log: log)
        let grace = configuration.process.gracePeriodMilliseconds
        return ServiceGroup(services, graceMilliseconds: grace, log: log).run()
    }

    /// What only this machine can tell of the settings.
    static func check(_ configuration: IngestConfiguration) -> [String] {
        var problems: [String] = []
        if ZoneTable().offset(configuration.fallbackZone, at: .earliest) == nil {
            problems.append(
                "DAYBOOK_FALLBACK_ZONE names no zone of this machine: correct it, or install the package tzdata"
            )
        }
        do throws(KeyKeeper.Failure) {
            _ = try KeyKeeper(configuration.tokens)
        } catch {
            problems.append("DAYBOOK_JWT_…: the keys of tokens can't be used: \(error)")
        }
        return problems
    }

    private static func print(_ text: String, to descriptor: Int32) {
        var text = text
        text.withUTF8 { bytes in
            _ = write(descriptor, bytes.baseAddress, bytes.count)
        }
    }
}
