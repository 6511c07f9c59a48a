import DevelopmentStack
import Foundation
import Glibc

/// Ingest beside a floor in C and, where `PEERS_HOME` names them, a Rust and a Go service that do the same job: one
/// Kafka, the same requests, taking turns, so that what the machine does besides falls on all of them.
final class IngestBenchmark {
    private static let main64 = Shape(connections: 64, days: 15)
    private static let main1000 = Shape(connections: 1000, days: 15)

    /// After this time no shape is measured another time: the whole ends inside six minutes.
    private static let mostSeconds = 310.0

    private let began = Date()
    private let isQuick: Bool
    private let warmup: Double
    private let seconds: Double
    private var samples: [ServerKind: [Shape: [Sample]]] = [:]

    init(isQuick: Bool) {
        self.isQuick = isQuick
        warmup = isQuick ? 0.2 : 0.4
        seconds = isQuick ? 0.8 : 1
    }

    func run() throws {
        Self.raiseFileLimit()
        let peersHome = ProcessInfo.processInfo.environment["PEERS_HOME"].flatMap { $0.isEmpty ? nil : $0 }
        let kinds = ServerKind.allCases.filter { kind in
            guard let program = kind.peerProgram else { return true }
            return peersHome.map { access("\($0)/bin/\(program)", X_OK) == 0 } ?? false
        }
        if kinds.count < ServerKind.allCases.count {
            say("PEERS_HOME names no folder with the peers' programs: figures beside Rust and Go are left out.")
        }
        let kafka = try BenchmarkKafka()
        say(
            kafka.isReal
                ? "Kafka: a real one of KAFKA_HOME, one node, \(StartedKafka.partitions) partitions."
                : "KAFKA_HOME is not set: the DEVELOPMENT BROKER stands in, and these figures say less."
        )
        let decode = try DecodeBenchmark(days: 15)
        let servers = try kinds.map { try BenchmarkServer($0, kafka, peersHome: peersHome) }
        let loads = try [1, 15, 30].reduce(into: [Int: PreparedLoad]()) {
            $0[$1] = PreparedLoad(try Requests(days: $1))
        }
        // What a process does once (metadata, first pages, a JIT in the broker) is not what is measured.
        for shape in [Self.main64, Self.main1000, Self.main64] {
            for server in servers {
                _ = try loads[shape.days]?.run(server, connections: shape.connections, warmup: 0.4, seconds: 1)
            }
        }
        var turn = 0
        for (shape, rounds) in plan {
            for _ in 0..<rounds {
                // On a slow machine rounds are left out, never a shape.
                let isMeasured = samples[.ours]?[shape] != nil
                if isMeasured, Date().timeIntervalSince(began) > Self.mostSeconds { continue }
                // Each round begins with another one, so that no one always follows the same.
                for index in servers.indices {
                    let server = servers[(index + turn) % servers.count]
                    guard let load = loads[shape.days] else { continue }
                    let sample = try load.run(
                        server,
                        connections: shape.connections,
                        warmup: warmup,
                        seconds: seconds
                    )
                    samples[server.kind, default: [:]][shape, default: []].append(sample)
                }
                turn += 1
            }
        }
        printTable(kinds)
        printNoise(kinds)
        printGoals(kinds, decode)
    }

    /// Shapes and how often each is measured: those that goals speak of more often, and in between the others.
    private var plan: [(Shape, Int)] {
        // Most goals are about the first shape, and on a machine with neighbours the quiet moments are few.
        if isQuick {
            return [(Self.main64, 4), (Self.main1000, 3), (Self.main64, 4), (Self.main1000, 3), (Self.main64, 4)]
        }
        var plan: [(Shape, Int)] = []
        for days in [15, 1, 30] {
            for connections in [64, 1000, 16, 256] { plan.append((Shape(connections: connections, days: days), 3)) }
            plan.append((Self.main64, 2))
            plan.append((Self.main1000, 2))
        }
        return plan
    }

    /// One server under load without a pause; its process id is told first, so that a profiler can look at it.
    static func load(_ kind: ServerKind, _ shape: Shape, seconds: Int) throws {
        raiseFileLimit()
        let kafka = try BenchmarkKafka()
        let home = ProcessInfo.processInfo.environment["PEERS_HOME"]
        let server = try BenchmarkServer(kind, kafka, peersHome: home)
        say("\(kind.rawValue) is process \(server.process)")
        let load = PreparedLoad(try Requests(days: shape.days))
        for _ in 0..<max(1, seconds / 4) {
            let sample = try load.run(server, connections: shape.connections, warmup: 1, seconds: 3)
            say(
                "\(format(sample.rate, 0)) requests/s, p50 \(format(sample.p50 * 1000, 2)) ms, "
                    + "p99 \(format(sample.p99 * 1000, 2)) ms, CPU \(format(sample.cpu * 1e6, 2)) us"
            )
        }
    }

    // MARK: What is printed

    /// The median of the turns' ratios: the two of a turn were measured within seconds of each other, and a machine that is
    /// slow for a while is so for both.
    private func pairedRatio(_ above: [Double], over below: [Double]) -> Double? {
        median(zip(above, below).map { $0 / $1 })
    }

    /// The ratio of the medians: what makes single requests wait comes and goes between two of a turn.
    private func medianRatio(_ above: [Double], over below: [Double]) -> Double? {
        guard let above = median(above), let below = median(below) else { return nil }
        return above / below
    }

    private func median(_ values: [Double]) -> Double? {
        guard !values.isEmpty else { return nil }
        let sorted = values.sorted()
        return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
    }

    private func printTable(_ kinds: [ServerKind]) {
        say(
            "\n" + cell("service", 8) + cell("conns", -6) + cell("days", -5) + cell("requests/s", -12)
                + cell("p50 ms", -9) + cell("p99 ms", -9) + cell("max ms", -9) + cell("CPU us", -9)
                + cell("peak MiB", -10) + cell("load us", -9) + cell("rounds", -8)
        )
        for connections in [16, 64, 256, 1000] {
            for days in [1, 15, 30] {
                let shape = Shape(connections: connections, days: days)
                for kind in kinds {
                    guard let list = samples[kind]?[shape] else { continue }
                    func best(_ figure: (Sample) -> Double) -> Double { list.map(figure).min() ?? .nan }
                    say(
                        cell(kind.rawValue, 8) + cell("\(connections)", -6) + cell("\(days)", -5)
                            + cell(format(list.map(\.rate).max() ?? .nan, 0), -12)
                            + cell(format(best(\.p50) * 1000, 2), -9) + cell(format(best(\.p99) * 1000, 2), -9)
                            + cell(format(best(\.slowest) * 1000, 1), -9) + cell(format(best(\.cpu) * 1e6, 1), -9)
                            + cell(format(list.map(\.peakMebibytes).max() ?? .nan, 0), -10)
                            + cell(format(best(\.ownCPU) * 1e6, 1), -9) + cell("\(list.count)", -8)
                    )
                }
            }
        }
        say(
            "Each figure is the best round's, memory the worst's. CPU: all threads of the service; load: the clients."
        )
    }

    /// How far the rounds of one service are apart.
    private func printNoise(_ kinds: [ServerKind]) {
        let spreads = kinds.map { kind in
            let cpu = (samples[kind]?[Self.main64] ?? []).map(\.cpu).sorted()
            let middle = cpu.isEmpty ? .nan : cpu[cpu.count / 2]
            let percent = ((cpu.last ?? .nan) / (cpu.first ?? .nan) - 1) * 100
            return "\(kind.rawValue) median \(format(middle * 1e6, 1)) us, worst +\(format(percent, 0)) % over best"
        }
        say("Noise, CPU at 64 connections and 15 days: " + spreads.joined(separator: "; ") + ".")
    }

    private func printGoals(_ kinds: [ServerKind], _ decode: DecodeBenchmark) {
        var figures: [(Goal, Double)] = []
        func add(
            _ goal: Goal,
            _ above: ServerKind,
            over below: ServerKind,
            _ shape: Shape,
            _ figure: (Sample) -> Double,
            _ ratio: ([Double], [Double]) -> Double?
        ) {
            let ours = samples[above]?[shape]?.map(figure) ?? []
            let others = samples[below]?[shape]?.map(figure) ?? []
            guard let value = ratio(ours, others), let high = ours.min(), let low = others.min() else { return }
            figures.append((goal, value))
            say("\(goal.name): of medians \(format(value, 3)), of the best rounds \(format(high / low, 3))")
        }
        let (paired, medians) = (pairedRatio(_:over:), medianRatio(_:over:))
        add(.cpuOverFloor, .ours, over: .floor, Self.main64, \.cpu, paired)
        add(.cpuOverRust, .ours, over: .rust, Self.main64, \.cpu, paired)
        add(.goOverCPU, .goPeer, over: .ours, Self.main64, \.cpu, paired)
        add(.p99OverRust64, .ours, over: .rust, Self.main64, \.p99, medians)
        add(.p99OverRust1000, .ours, over: .rust, Self.main1000, \.p99, medians)
        add(.maxOverFloor1000, .ours, over: .floor, Self.main1000, \.slowest, medians)
        figures.append((.decode, decode.ratio))
        if let peak = samples[.ours]?[Self.main1000]?.map(\.peakMebibytes).max() { figures.append((.memory, peak)) }
        say(decode.summary + "\n")
        for (goal, value) in figures { say(goal.line(value)) }
        say("")
        for (goal, value) in figures { say("RESULT ingest.\(goal.name) \(format(value, 3))") }
    }

    /// 1,000 connections need as many descriptors, and a shell may give fewer.
    static func raiseFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
