import CLoad
import Foundation
import Glibc

/// What is asked of a server in one run.
struct Shape: Hashable {
    let connections: Int
    let days: Int
}

/// What one run measured. Times in seconds.
struct Sample {
    let rate: Double
    let p50: Double
    let p99: Double
    let slowest: Double
    /// Of all threads of the server, for each acknowledged request.
    let cpu: Double
    /// Of the load itself, for each request.
    let ownCPU: Double
    let peakMebibytes: Double
}

/// Requests in memory that C can read, for as long as this lives.
final class PreparedLoad {
    private let bytes: [UnsafeMutableBufferPointer<CChar>]
    private let list: [load_request]

    init(_ requests: Requests) {
        bytes = requests.texts.map { text in
            let copy = UnsafeMutableBufferPointer<CChar>.allocate(capacity: text.count)
            for (index, byte) in text.enumerated() { copy[index] = CChar(bitPattern: byte) }
            return copy
        }
        list = bytes.map { load_request(bytes: $0.baseAddress, length: $0.count) }
    }

    deinit {
        for text in bytes { text.deallocate() }
    }

    /// Loads the server, with so many requests a second or as many as it takes (0), then gives what was measured. Every
    /// answer must be 202.
    func run(
        _ server: BenchmarkServer,
        connections: Int,
        rate: Double = 0,
        warmup: Double,
        seconds: Double
    ) throws -> Sample {
        resetPeak(server.process)
        var result = load_result()
        let code = list.withUnsafeBufferPointer { list in
            var plan = load_plan()
            plan.port = server.port
            plan.connections = Int32(connections)
            plan.warmup_seconds = warmup
            plan.seconds = seconds
            plan.rate = rate
            plan.server = server.process
            plan.requests = list.baseAddress
            plan.request_count = list.count
            return load_run(&plan, &result)
        }
        guard code == 0 else {
            throw BenchmarkFailure(
                "no load on \(server.name): \(String(cString: strerror(code))); raise ulimit -n if it is about files"
            )
        }
        guard result.refused == 0, result.accepted > 0 else {
            throw BenchmarkFailure(
                "\(server.name) did not answer 202 to everything (\(result.accepted) times it did, \(result.refused)"
                    + " times not); see its log, \(server.logPath)"
            )
        }
        guard result.unanswered == 0 else {
            throw BenchmarkFailure(
                "\(server.name) left \(result.unanswered) requests without an answer; see its log, \(server.logPath)"
            )
        }
        let accepted = Double(result.accepted)
        return Sample(
            rate: accepted / result.seconds,
            p50: result.p50,
            p99: result.p99,
            slowest: result.slowest,
            cpu: result.server_cpu / accepted,
            ownCPU: result.own_cpu / accepted,
            peakMebibytes: peakMebibytes(server.process)
        )
    }

    /// The kernel starts to look for a new peak of the process's memory.
    private func resetPeak(_ process: pid_t) {
        try? "5".write(toFile: "/proc/\(process)/clear_refs", atomically: false, encoding: .utf8)
    }

    private func peakMebibytes(_ process: pid_t) -> Double {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0) / 1024
    }
}
