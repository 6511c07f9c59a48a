import Glibc

/// `benchmarks ingest [--quick]`, `benchmarks decode` (a part of it), `benchmarks aggregator [--quick]` and
/// `benchmarks replay [--quick]` print figures; exits with 0 whether goals are reached or not.
@main
struct Main {
    static func main() {
        var arguments = Array(CommandLine.arguments.dropFirst())
        let isQuick = arguments.last == "--quick"
        if isQuick { arguments.removeLast() }
        do {
            switch arguments {
            case ["ingest"]: try IngestBenchmark(isQuick: isQuick).run()
            case ["decode"]: say(try DecodeBenchmark(days: 15).summary)
            case ["aggregator"]: try AggregatorBenchmark(isQuick: isQuick).run()
            case ["replay"]: try ReplayBenchmark(isQuick: isQuick).run()
            default:
                say(
                    "usage: benchmarks ingest [--quick] | decode | aggregator [--quick] | replay [--quick]",
                    to: STDERR_FILENO
                )
                exit(64)
            }
        } catch {
            say("benchmarks: \(error)", to: STDERR_FILENO)
            exit(1)
        }
    }
}

/// One line, at once, also into a pipe.
func say(_ line: String, to descriptor: Int32 = STDOUT_FILENO) {
    var text = line + "\n"
    text.withUTF8 { bytes in
        var written = 0
        while written < bytes.count {
            let count = write(descriptor, bytes.baseAddress.map { $0 + written }, bytes.count - written)
            guard count > 0 else { return }
            written += count
        }
    }
}

/// Why a benchmark can't go on; says what to do.
struct BenchmarkFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
