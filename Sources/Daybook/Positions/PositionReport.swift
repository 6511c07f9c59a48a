import Domain
import Kafka
import Storage

/// Where the workers are, partition by partition, as `daybook offsets` shows it. Pure.
struct PositionReport: Sendable {
    struct Row: Sendable {
        let name: PartitionName
        let state: PartitionState
        /// What the log holds; nil where it was not asked or is not there.
        let log: KafkaWatermarks?
        /// The row was made over the log that answers now.
        let isThisLog: Bool

        /// Records behind the end of the log; all of it where the position belongs to another one.
        var lag: Int64? {
            guard let log else { return nil }
            return max(0, log.high - max(isThisLog ? state.nextOffset : log.low, log.low))
        }

        var remarks: [String] {
            var list: [String] = []
            if state.brakedAt != nil { list.append("stopped by the brake") }
            if log != nil, !isThisLog { list.append("of another log") }
            if let log, isThisLog, state.nextOffset < log.low {
                list.append("\(log.low - state.nextOffset) records lost to retention")
            }
            return list
        }
    }

    let rows: [Row]
    let now: Instant

    /// `logs` are those that could be asked.
    init(
        _ states: [(name: PartitionName, state: PartitionState)],
        logs: [PartitionName: KafkaWatermarks],
        clusterID: String?,
        now: Instant
    ) {
        self.now = now
        rows = states.map { name, state in
            let log = logs[name]
            return Row(
                name: name,
                state: state,
                log: log,
                isThisLog: state.clusterID == clusterID && state.nextOffset <= log?.high ?? .max
            )
        }
    }

    func text(_ style: TextStyle) -> [String] {
        var table = TextTable([
            .left("PARTITION"), .right("LAG"), .right("NEXT"), .right("BEGIN"), .right("END"), .right("APPLIED"),
            .right("EPOCH"), .left("OWNER"), .left(""),
        ])
        for row in rows {
            table.add([
                row.name.description, row.lag.map { grouped(Int($0)) } ?? "?", String(row.state.nextOffset),
                row.log.map { String($0.low) } ?? "?", row.log.map { String($0.high) } ?? "?",
                age(row.state).map { Self.shown(seconds: $0) } ?? "never", String(row.state.epoch),
                row.state.owner.description, row.remarks.joined(separator: ", "),
            ])
        }
        return table.isEmpty ? ["no worker has read anything yet"] : table.lines(style)
    }

    /// How long ago the newest record that was applied had arrived.
    private func age(_ state: PartitionState) -> Int? {
        guard state.appliedThrough > 0 else { return nil }
        return Int(clamping: max(0, now.microseconds - state.appliedThrough) / 1_000_000)
    }

    /// `42s`, `17m`, `3h`, `12d`.
    static func shown(seconds: Int) -> String {
        switch seconds {
        case ..<120: "\(seconds)s"
        case ..<7200: "\(seconds / 60)m"
        case ..<172_800: "\(seconds / 3600)h"
        default: "\(seconds / 86_400)d"
        }
    }

    var json: JSONDocument {
        .array(
            rows.map { row in
                let applied = row.state.appliedThrough
                return .object([
                    ("topic", .string(row.name.topic)), ("partition", .integer(Int(row.name.partition))),
                    ("lag", row.lag.map { .integer(Int($0)) } ?? .null),
                    ("next_offset", .integer(Int(row.state.nextOffset))),
                    ("begin_offset", row.log.map { .integer(Int($0.low)) } ?? .null),
                    ("end_offset", row.log.map { .integer(Int($0.high)) } ?? .null),
                    (
                        "applied_through",
                        applied > 0 ? .string(Instant(microseconds: applied).description) : .null
                    ),
                    ("applied_age_seconds", age(row.state).map { .integer($0) } ?? .null),
                    ("epoch", .integer(Int(row.state.epoch))), ("owner", .string(row.state.owner.description)),
                    ("cluster_id", .string(row.state.clusterID)), ("this_log", .bool(row.isThisLog)),
                    (
                        "braked_at",
                        row.state.brakedAt.map { .string(Instant(microseconds: $0).description) } ?? .null
                    ),
                ])
            }
        )
    }
}
