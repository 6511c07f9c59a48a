import Synchronization

/// All metrics of one process. Looking an instrument up takes a lock: do it once and keep what it returns.
///
/// The same description and label values always give the same instrument, so parts may share one. A description whose
/// name stands for another kind or other labels gives an instrument that works but isn't shown: nothing fails, and
/// the catalogue's test finds it through `conflicts`.
public final class MetricsRegistry: Sendable {
    private let families = Mutex<[String: MetricFamily]>([:])
    private let build: BuildInfo

    public static let buildInfo = MetricDescription(
        "daybook_build_info",
        .gauge,
        help: "Always 1; the labels name the build.",
        labels: ["version", "build"]
    )

    public init(build: BuildInfo = .current) {
        self.build = build
        gauge(Self.buildInfo, [build.version.description, String(build.number)]).set(1)
    }

    /// - Parameters:
    ///   - description: From a catalogue.
    ///   - labels: A value for each of the description's labels, in its order.
    /// - Returns: The counter of these label values, the same one every time.
    public func counter(_ description: MetricDescription, _ labels: [String] = []) -> Counter {
        let made = instrument(description, labels) { .counter(Counter()) }
        guard case .counter(let counter) = made else { return Counter() }
        return counter
    }

    public func gauge(_ description: MetricDescription, _ labels: [String] = []) -> Gauge {
        let made = instrument(description, labels) { .gauge(Gauge()) }
        guard case .gauge(let gauge) = made else { return Gauge() }
        return gauge
    }

    public func histogram(_ description: MetricDescription, _ labels: [String] = []) -> Histogram {
        var bounds: [Double] = []
        if case .histogram(let buckets) = description.kind { bounds = buckets }
        let made = instrument(description, labels) { .histogram(Histogram(bounds: bounds)) }
        guard case .histogram(let histogram) = made else { return Histogram(bounds: bounds) }
        return histogram
    }

    /// A gauge that is read at every scrape, on the scraping thread; a later closure for the same labels replaces the
    /// earlier one. Nil leaves the sample out.
    public func gauge(
        _ description: MetricDescription,
        _ labels: [String] = [],
        reading read: @escaping @Sendable () -> Double?
    ) {
        sampled(description, labels, as: .gauge, read)
    }

    /// A counter that another part of the process keeps, read at every scrape.
    public func counter(
        _ description: MetricDescription,
        _ labels: [String] = [],
        reading read: @escaping @Sendable () -> Double?
    ) {
        sampled(description, labels, as: .counter, read)
    }

    private func sampled(
        _ description: MetricDescription,
        _ labels: [String],
        as kind: MetricDescription.Kind,
        _ read: @escaping @Sendable () -> Double?
    ) {
        guard description.kind == kind else { return conflict(description) }
        families.withLock { families in
            let name = description.name.description
            var family = families[name] ?? MetricFamily(description)
            guard family.matches(description), labels.count == description.labels.count else {
                family.hasConflict = true
                families[name] = family
                return
            }
            family.replace(labels, .reading(read))
            families[name] = family
        }
    }

    /// Forgets one child, as when a partition is no longer ours; who still holds it may go on using it unseen.
    public func remove(_ description: MetricDescription, _ labels: [String]) {
        families.withLock { $0[description.name.description]?.remove(labels) }
    }

    /// Names that were asked for with different kinds or labels: a mistake in a catalogue.
    public var conflicts: [String] {
        families.withLock { $0.values.filter(\.hasConflict).map(\.description.name.description).sorted() }
    }

    private func conflict(_ description: MetricDescription) {
        families.withLock { families in
            families[description.name.description, default: MetricFamily(description)].hasConflict = true
        }
    }

    private func instrument(
        _ description: MetricDescription,
        _ labels: [String],
        make: () -> MetricFamily.Child
    ) -> MetricFamily.Child {
        families.withLock { families in
            let name = description.name.description
            var family = families[name] ?? MetricFamily(description)
            let fresh = make()
            guard family.matches(description), labels.count == description.labels.count,
                fresh.fits(description.kind)
            else {
                family.hasConflict = true
                families[name] = family
                return fresh
            }
            let child = family.child(labels, orInsert: fresh)
            families[name] = family
            return child
        }
    }

    /// The Prometheus text format, version 0.0.4; serve it as `text/plain; version=0.0.4; charset=utf-8`.
    public func renderPrometheusText() -> [UInt8] {
        // Closures run outside the lock: they may take locks of their own.
        let snapshot = families.withLock { $0.values.sorted { $0.name < $1.name } }
        var text = PrometheusText()
        for family in snapshot { text.append(family) }
        return text.bytes
    }
}

/// One metric with its children, by label values.
struct MetricFamily {
    enum Child {
        case counter(Counter)
        case gauge(Gauge)
        case histogram(Histogram)
        case reading(@Sendable () -> Double?)

        func fits(_ kind: MetricDescription.Kind) -> Bool {
            switch (self, kind) {
            case (.counter, .counter), (.gauge, .gauge), (.histogram, .histogram): true
            case (.reading, .counter), (.reading, .gauge): true
            default: false
            }
        }
    }

    static let overflowLabel = "other"

    let description: MetricDescription
    private(set) var children: [[String]: Child] = [:]
    var hasConflict = false

    init(_ description: MetricDescription) {
        self.description = description
    }

    var name: String { description.name.description }

    func matches(_ other: MetricDescription) -> Bool {
        description.kind == other.kind && description.labels == other.labels
    }

    mutating func child(_ labels: [String], orInsert fresh: Child) -> Child {
        let key = bounded(labels)
        if let known = children[key] { return known }
        children[key] = fresh
        return fresh
    }

    mutating func replace(_ labels: [String], _ child: Child) {
        children[bounded(labels)] = child
    }

    mutating func remove(_ labels: [String]) {
        children[labels] = nil
    }

    private func bounded(_ labels: [String]) -> [String] {
        guard children[labels] == nil, !labels.isEmpty, children.count >= description.maximumChildren else {
            return labels
        }
        return labels.map { _ in Self.overflowLabel }
    }
}
