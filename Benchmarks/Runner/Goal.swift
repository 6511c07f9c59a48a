import Foundation

/// A figure that is promised, and what it has to be.
struct Goal {
    let name: String
    let what: String
    let limit: Double
    var isLeast = false

    static let cpuOverFloor = Goal(name: "cpu_over_floor", what: "CPU per request, ours / floor", limit: 1.5)
    static let cpuOverRust = Goal(name: "cpu_over_rust", what: "CPU per request, ours / Rust peer", limit: 0.8)
    static let goOverCPU = Goal(
        name: "go_over_cpu",
        what: "CPU per request, Go peer / ours",
        limit: 2.5,
        isLeast: true
    )
    static let p99OverRust64 = Goal(
        name: "p99_over_rust_64",
        what: "p99 at 64 connections, ours / Rust peer",
        limit: 1.1
    )
    static let p99OverRust1000 = Goal(
        name: "p99_over_rust_1000",
        what: "p99 at 1,000 connections, ours / Rust peer",
        limit: 1.1
    )
    static let maxOverFloor1000 = Goal(
        name: "max_over_floor_1000",
        what: "slowest request at 1,000 connections, ours / floor",
        limit: 1.5
    )
    static let decode = Goal(
        name: "decode_over_simdjson",
        what: "decode of a 15-day body / bare simdjson walk",
        limit: 1.6
    )
    static let scan = Goal(
        name: "wake.scan_10m_over_100k",
        what: "a scan of 1,000 candidates, the most users / 100,000 users",
        limit: 1.5
    )
    static let memory = Goal(name: "memory_mib_1000", what: "peak memory at 1,000 connections, MiB", limit: 64)

    func line(_ value: Double) -> String {
        let isReached = isLeast ? value >= limit : value <= limit
        let sign = isLeast ? ">=" : "<="
        return cell(name, 21) + cell(format(value, 2), -8) + "   " + cell("\(sign) \(format(limit, 1))", 8)
            + (isReached ? "reached      " : "NOT REACHED  ") + what
    }
}

func format(_ value: Double, _ decimals: Int) -> String {
    String(format: "%.\(decimals)f", value)
}

/// Padded to a width; a negative one aligns to the right.
func cell(_ text: String, _ width: Int) -> String {
    let spaces = String(repeating: " ", count: max(0, abs(width) - text.count))
    return width < 0 ? spaces + text : text + spaces
}
