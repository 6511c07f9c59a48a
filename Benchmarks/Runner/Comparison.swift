import Foundation

/// Ingest as it is compared with itself: another program, or other settings. Written `PROGRAM,NAME=VALUE,…`, where
/// either part may be missing; `-` changes nothing.
struct Variant {
    var text = ""
    var number = 0
    /// Nil: the one beside the benchmarks.
    var program: String?
    var settings: [String: String] = [:]

    init() {}

    init(_ text: String, number: Int) {
        self.text = text
        self.number = number
        for part in text.split(separator: ",") where part != "-" {
            if let sign = part.firstIndex(of: "=") {
                settings[String(part[..<sign])] = String(part[part.index(after: sign)...])
            } else {
                program = String(part)
            }
        }
    }
}

/// Variants of ingest that take turns over one Kafka, to see what a change is worth: 15-day bodies at 64 connections.
struct Comparison {
    private let variants: [Variant]

    init(_ variants: [Variant]) {
        self.variants = variants
    }

    func run() throws {
        IngestBenchmark.raiseFileLimit()
        let kafka = try BenchmarkKafka()
        let home = ProcessInfo.processInfo.environment["PEERS_HOME"]
        let servers = try variants.map { variant in
            if let peer = ServerKind(rawValue: variant.text) {
                return try BenchmarkServer(peer, kafka, peersHome: home)
            }
            return try BenchmarkServer(.ours, kafka, peersHome: nil, variant: variant)
        }
        let load = PreparedLoad(try Requests(days: 15))
        // Until the broker's JIT is through, nothing here says anything.
        for _ in 0..<3 {
            for server in servers { _ = try load.run(server, connections: 64, warmup: 0, seconds: 2) }
        }
        var samples = servers.map { _ in [Sample]() }
        for turn in 0..<12 {
            for index in servers.indices {
                let place = (index + turn) % servers.count
                samples[place].append(try load.run(servers[place], connections: 64, warmup: 0.2, seconds: 1))
            }
        }
        say(cell("best CPU us", -12) + cell("median", -8) + cell("requests/s", -12) + cell("p50 ms", -9) + "   variant")
        for (server, list) in zip(servers, samples) {
            let cpu = list.map(\.cpu).sorted()
            let rate = list.map(\.rate).sorted()[list.count / 2]
            let p50 = list.map(\.p50).sorted()[list.count / 2]
            say(
                cell(format((cpu.first ?? 0) * 1e6, 2), -12) + cell(format(cpu[cpu.count / 2] * 1e6, 2), -8)
                    + cell(format(rate, 0), -12) + cell(format(p50 * 1000, 2), -9) + "   " + server.name
            )
        }
    }
}
