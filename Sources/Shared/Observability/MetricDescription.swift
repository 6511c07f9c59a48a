/// What a metric is, declared once as a constant: each service lists its own in one catalogue (`static let`s of an
/// enum in one file), and everything else refers to those. Names follow Prometheus: base units, `_total` for counters.
///
/// Label values come from small fixed sets (topic, partition, route, reason, code); a user, a token or a value is
/// never a label. `maximumChildren` bounds them all the same: combinations beyond it are counted under `other`.
public struct MetricDescription: Sendable {
    public enum Kind: Sendable, Equatable {
        case counter
        case gauge
        /// Upper bounds, ascending, without infinity.
        case histogram(buckets: [Double])
    }

    public let name: StaticText
    public let help: StaticText
    public let kind: Kind
    public let labels: [StaticText]
    public let maximumChildren: Int

    public init(
        _ name: StaticString,
        _ kind: Kind,
        help: StaticString,
        labels: [StaticText] = [],
        maximumChildren: Int = 1000
    ) {
        self.name = StaticText(name)
        self.kind = kind
        self.help = StaticText(help)
        self.labels = labels
        self.maximumChildren = maximumChildren
    }

    /// Seconds, from a millisecond to half a minute: what a request or a batch takes.
    public static let latencyBuckets: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ]

    /// Powers of four from 1 to 4,096: how many items a batch holds.
    public static let sizeBuckets: [Double] = [1, 4, 16, 64, 256, 1024, 4096]

    /// What is wrong with the declaration, for the test of a catalogue; empty when nothing is.
    public var problems: [String] {
        var found: [String] = []
        if !Self.isName(name.description, colons: true) { found.append("\(name): not a metric name") }
        if help.description.isEmpty { found.append("\(name): no help") }
        let isCounter = kind == .counter
        if isCounter != name.description.hasSuffix("_total") { found.append("\(name): only counters end in _total") }
        for label in labels where !Self.isName(label.description, colons: false) || label == "le" {
            found.append("\(name): \(label) can't be a label")
        }
        if Set(labels).count != labels.count { found.append("\(name): a label stands twice") }
        if case .histogram(let buckets) = kind {
            let ascending = zip(buckets, buckets.dropFirst()).allSatisfy { $0 < $1 }
            if buckets.isEmpty || !ascending || !buckets.allSatisfy(\.isFinite) {
                found.append("\(name): buckets must be finite and ascend")
            }
        }
        return found
    }

    private static func isName(_ text: String, colons: Bool) -> Bool {
        let bytes = Array(text.utf8)
        guard let first = bytes.first, !(48...57).contains(first) else { return false }
        return bytes.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "_"): true
            case UInt8(ascii: ":"): colons
            default: false
            }
        }
    }
}
