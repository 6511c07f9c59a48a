public import Configuration
public import Observability
import ServiceRuntime

/// The executable of a worker, apart from `main`.
public enum WorkerProgram {
    /// Answers `--version` and `--help`, or reads the settings and works until it is told to stop.
    ///
    /// - Parameters:
    ///   - name: as the program is called.
    ///   - usage: printed for `--help` and for an argument that is not known.
    ///   - arguments: without the program's own name.
    ///   - read: the settings, from the environment.
    ///   - process: the part of them that every program has.
    ///   - serve: the work; returns the status to exit with.
    /// - Returns: the status to exit with.
    public static func run<Settings>(
        _ name: StaticString,
        usage: String,
        arguments: [String],
        read: () throws(ConfigurationErrors) -> Settings,
        process: (Settings) -> ProcessConfiguration,
        serve: (Settings, Log) -> Int32
    ) -> Int32 {
        if arguments.contains("--version") {
            print("\(name) \(BuildInfo.current)")
            return ExitCode.ok
        }
        if let unknown = arguments.first {
            print(usage)
            return ["--help", "-h"].contains(unknown) ? ExitCode.ok : ExitCode.usage
        }
        ShutdownSignal.install()
        do throws(ConfigurationErrors) {
            let settings = try read()
            let level = LogLevel(name: process(settings).logLevel.rawValue) ?? .info
            return serve(settings, Log(service: name, level: level))
        } catch {
            StandardError.print("\(error)")
            return ExitCode.configuration
        }
    }
}
