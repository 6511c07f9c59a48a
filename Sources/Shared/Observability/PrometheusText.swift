/// Writes families in the text format. A family without samples is left out.
struct PrometheusText {
    private(set) var bytes: [UInt8] = []

    init() {
        bytes.reserveCapacity(16 * 1024)
    }

    mutating func append(_ family: MetricFamily) {
        let children = family.children.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        guard !children.isEmpty else { return }
        header(family)
        let names = family.description.labels.map(\.description)
        for (values, child) in children {
            let labels = Array(zip(names, values))
            switch child {
            case .counter(let counter): sample(family.name, labels, String(counter.value))
            case .gauge(let gauge): sample(family.name, labels, Self.number(gauge.value))
            case .reading(let read):
                if let value = read() { sample(family.name, labels, Self.number(value)) }
            case .histogram(let histogram): self.histogram(histogram, family.name, labels)
            }
        }
    }

    private mutating func header(_ family: MetricFamily) {
        let kind =
            switch family.description.kind {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        put("# HELP \(family.name) ")
        escaped(family.description.help.description, quotes: false)
        put("\n# TYPE \(family.name) \(kind)\n")
    }

    private mutating func histogram(_ histogram: Histogram, _ name: String, _ labels: [(String, String)]) {
        let (counts, sum) = histogram.snapshot
        var cumulative: UInt64 = 0
        for (count, bound) in zip(counts, histogram.bounds + [.infinity]) {
            cumulative &+= count
            sample(name + "_bucket", labels + [("le", Self.number(bound))], String(cumulative))
        }
        sample(name + "_sum", labels, Self.number(sum))
        sample(name + "_count", labels, String(cumulative))
    }

    private mutating func sample(_ name: String, _ labels: [(String, String)], _ value: String) {
        put(name)
        if !labels.isEmpty {
            put("{")
            for (index, (label, value)) in labels.enumerated() {
                put(index == 0 ? "\(label)=\"" : ",\(label)=\"")
                escaped(value, quotes: true)
                put("\"")
            }
            put("}")
        }
        put(" \(value)\n")
    }

    private mutating func put(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    private mutating func escaped(_ text: String, quotes: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): put("\\\\")
            case UInt8(ascii: "\n"): put("\\n")
            case UInt8(ascii: "\"") where quotes: put("\\\"")
            default: bytes.append(byte)
            }
        }
    }

    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value), abs(value) < 1e15 { return String(whole) }
        return String(value)
    }
}
