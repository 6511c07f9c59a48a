import AggregatorWorker
import Kafka

/// What a replay did, as text and as JSON. Pure.
enum ReplayText {
    static func text(_ counts: ReplayCounts, partitions: Int, seconds: Double, _ style: TextStyle) -> [String] {
        let rate = seconds > 0 ? Int(Double(counts.read) / seconds) : counts.read
        var lines = [
            "\(counted(counts.read, "record", "records")) read of \(counted(partitions, "partition", "partitions")) in "
                + "\(shown(seconds)) s (\(grouped(rate))/s), \(grouped(counts.applied)) applied",
            "days: \(grouped(counts.changed)) changed, \(grouped(counts.confirmed)) confirmed, "
                + "\(grouped(counts.older)) older than what is stored, \(grouped(counts.suppressed)) of deleted data, "
                + "\(grouped(counts.belowFloor)) below the retention floor",
            "written: \(grouped(counts.sourceRows)) source rows, \(grouped(counts.canonical)) canonical days, "
                + "\(grouped(counts.accounts)) accounts",
        ]
        if !counts.poison.isEmpty {
            let reasons = counts.poison.sorted { $0.key < $1.key }.map { "\($0.key) \(grouped($0.value))" }
            lines.append(style.warning("poison: ") + reasons.joined(separator: ", ") + " (not put aside again)")
        }
        return lines
    }

    static func members(_ counts: ReplayCounts, partitions: Int, seconds: Double) -> [(String, JSONDocument)] {
        let poison = counts.poison.sorted { $0.key < $1.key }.map { ($0.key, JSONDocument.integer($0.value)) }
        return [
            ("read", .integer(counts.read)), ("applied", .integer(counts.applied)),
            ("partitions", .integer(partitions)), ("seconds", .number((seconds * 1000).rounded() / 1000)),
            ("changed", .integer(counts.changed)), ("confirmed", .integer(counts.confirmed)),
            ("older", .integer(counts.older)), ("suppressed", .integer(counts.suppressed)),
            ("below_floor", .integer(counts.belowFloor)), ("source_rows", .integer(counts.sourceRows)),
            ("canonical_days", .integer(counts.canonical)), ("accounts", .integer(counts.accounts)),
            ("retries", .integer(counts.retries)), ("poison", .object(poison)),
        ]
    }

    /// What is worked on, so that nobody takes one stretch for another.
    static func stretches(_ stretches: [LogScan.Stretch]) -> [String] {
        let records = stretches.reduce(0) { $0 + Int(clamping: $1.count) }
        let full = stretches.filter { $0.count > 0 }
        var lines = full.prefix(8).map { "  \($0.place): \($0.start) up to \($0.end)" }
        if full.count > 8 { lines.append("  and \(full.count - 8) more") }
        return ["\(counted(records, "offset", "offsets")) of \(counted(full.count, "partition", "partitions"))"] + lines
    }

    static func json(_ stretches: [LogScan.Stretch]) -> JSONDocument {
        .array(
            stretches.map { stretch in
                .object([
                    ("topic", .string(stretch.place.topic)), ("partition", .integer(Int(stretch.place.partition))),
                    ("from", .integer(Int(stretch.start))), ("to", .integer(Int(stretch.end))),
                ])
            }
        )
    }

    private static func shown(_ seconds: Double) -> String {
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
