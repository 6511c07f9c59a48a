import Foundation
import Glibc

/// Half of the load that the service can take, for minutes: its memory has to stay flat, and no request may stall.
final class Soak {
    private static let connections = 64
    /// What memory may grow by between the second third of the time and the last.
    private static let mostGrowth = 4.0
    private static let mostFiles = 16
    private static let mostThreads = 0
    /// No request may take longer, counted from when it was due.
    private static let mostSeconds = 2.0
    /// What of the requests that were due must have been answered.
    private static let leastShare = 0.95

    private let seconds: Int

    /// How the service stood at the end of one part of the time.
    private struct Look {
        let sample: Sample
        let mebibytes: Double
        let descriptors: Int
        let threads: Int
    }

    init(seconds: Int) {
        self.seconds = seconds
    }

    /// Returns whether all was well.
    func run() throws -> Bool {
        IngestBenchmark.raiseFileLimit()
        let kafka = try BenchmarkKafka()
        say(
            kafka.isReal
                ? "Kafka: a real one of KAFKA_HOME." : "KAFKA_HOME is not set: the development broker stands in."
        )
        let server = try BenchmarkServer(.ours, kafka, peersHome: nil)
        let load = PreparedLoad(try Requests(days: 15))
        let most = try load.run(server, connections: Self.connections, warmup: 1, seconds: 2).rate
        say("\(format(most, 0)) requests/s at most; half of it from now on, for \(seconds) s.\n")
        say(
            cell("second", -7) + cell("requests/s", -12) + cell("p50 ms", -9) + cell("p99 ms", -9)
                + cell("slowest ms", -12) + cell("RSS MiB", -9) + cell("files", -7) + cell("threads", -9)
        )
        let parts = min(60, max(6, seconds / 10))
        var looks: [Look] = []
        for part in 0..<parts {
            let sample = try load.run(
                server,
                connections: Self.connections,
                rate: most / 2,
                warmup: 0,
                seconds: Double(seconds) / Double(parts)
            )
            let look = look(server.process, sample)
            looks.append(look)
            say(
                cell("\((part + 1) * seconds / parts)", -7) + cell(format(sample.rate, 0), -12)
                    + cell(format(sample.p50 * 1000, 2), -9) + cell(format(sample.p99 * 1000, 2), -9)
                    + cell(format(sample.slowest * 1000, 1), -12) + cell(format(look.mebibytes, 1), -9)
                    + cell("\(look.descriptors)", -7) + cell("\(look.threads)", -9)
            )
        }
        return judge(looks, due: most / 2)
    }

    /// Compares the last third of the time with the one before.
    private func judge(_ looks: [Look], due: Double) -> Bool {
        let third = looks.count / 3
        let before = looks[third..<(2 * third)]
        let after = looks[(2 * third)...]
        func median(_ looks: ArraySlice<Look>) -> Double {
            let sizes = looks.map(\.mebibytes).sorted()
            return sizes[sizes.count / 2]
        }
        let growth = median(after) - median(before)
        let slowest = looks.map(\.sample.slowest).max() ?? 0
        let p99 = looks.map(\.sample.p99).max() ?? 0
        let share = looks.map(\.sample.rate).reduce(0, +) / Double(looks.count) / due
        let files = (after.map(\.descriptors).min() ?? 0) - (before.map(\.descriptors).max() ?? 0)
        let threads = (after.map(\.threads).min() ?? 0) - (before.map(\.threads).max() ?? 0)
        var faults: [String] = []
        if growth > Self.mostGrowth {
            faults.append(
                "memory grew by \(format(growth, 1)) MiB: more than \(format(Self.mostGrowth, 0)) is no noise"
            )
        }
        if slowest > Self.mostSeconds {
            faults.append(
                "a request took \(format(slowest, 1)) s: no more than \(format(Self.mostSeconds, 0)) is allowed"
            )
        }
        // Some of the load's connections end and come again at any moment; a leak is one for every so many requests.
        if files > Self.mostFiles { faults.append("\(files) more descriptors are open at the end") }
        if threads > Self.mostThreads { faults.append("\(threads) more threads run at the end") }
        if share < Self.leastShare {
            faults.append("\(format(share * 100, 0)) % of the requests that were due were answered in their time")
        }
        say("\nRESULT soak.rss_growth_mib \(format(growth, 2))")
        say("RESULT soak.slowest_ms \(format(slowest * 1000, 1))")
        say("RESULT soak.worst_p99_ms \(format(p99 * 1000, 2))")
        say("RESULT soak.share_of_due \(format(share, 3))")
        say("RESULT soak.descriptors_more \(files)")
        say("RESULT soak.threads_more \(threads)")
        for fault in faults { say("FAILED: \(fault)") }
        if faults.isEmpty { say("Memory flat, no stall, no more descriptors or threads.") }
        return faults.isEmpty
    }

    private func look(_ process: pid_t, _ sample: Sample) -> Look {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        func number(_ name: String) -> Double {
            let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
            return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Double($0) } ?? 0
        }
        let files = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd"))?.count ?? 0
        return Look(
            sample: sample,
            mebibytes: number("VmRSS:") / 1024,
            descriptors: files,
            threads: Int(number("Threads:"))
        )
    }
}
