import Glibc

/// `benchmarks ingest [--quick]`, `aggregator [--quick]`, `replay [--quick]`, `wake-push [--quick]`, `wake-scan
/// [--quick]`, `decode` and `load` (one service under load, for a profiler) print figures; they exit with 0 whether goals
/// are reached or not. `benchmarks soak` exits with 1 if memory grew or a request stalled.
@main
struct Main {
    static func main() {
        var arguments = Array(CommandLine.arguments.dropFirst())
        let isQuick = arguments.last == "--quick"
        if isQuick { arguments.removeLast() }
        let numbers = arguments.compactMap(Int.init)
        arguments.removeAll { Int($0) != nil }
        do {
            if arguments.first == "compare" {
                let variants = CommandLine.arguments.dropFirst(2).enumerated().map { Variant($1, number: $0 + 1) }
                return try Comparison(variants).run()
            }
            switch (arguments, numbers.count) {
            case (["ingest"], 0): try IngestBenchmark(isQuick: isQuick).run()
            case (["aggregator"], 0): try AggregatorBenchmark(isQuick: isQuick).run()
            case (["wake-push"], 0): try WakePushBenchmark(isQuick: isQuick).run()
            case (["wake-scan"], 0): try WakeScanBenchmark(isQuick: isQuick).run()
            case (let words, 0) where words.count == 3 && words[0] == "wake-scan" && words[2].contains("/"):
                try WakeScanBenchmark(isQuick: isQuick).run(words[1], in: words[2])
            case (["replay"], 0): try ReplayBenchmark(isQuick: isQuick).run()
            case (["decode"], 0): say(try DecodeBenchmark(days: 15).summary)
            case (["soak"], 1): if try !Soak(seconds: max(6, numbers[0])).run() { exit(1) }
            case (["load", "ours"], 3), (["load", "floor"], 3), (["load", "rust"], 3), (["load", "go"], 3):
                guard let kind = ServerKind(rawValue: arguments[1]) else { return }
                let shape = Shape(connections: numbers[0], days: numbers[1])
                try IngestBenchmark.load(kind, shape, seconds: numbers[2])
            default:
                say(
                    "usage: benchmarks ingest [--quick] | aggregator [--quick] | replay [--quick] | decode"
                        + " | wake-push [--quick] | wake-scan [load FOLDER | measure FOLDER] [--quick]"
                        + " | soak SECONDS"
                        + " | load ours|floor|rust|go CONNECTIONS DAYS SECONDS"
                        + " | compare [PROGRAM][,NAME=VALUE]…|floor|rust|go …",
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
