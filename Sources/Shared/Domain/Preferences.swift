/// What a person chose: for each metric at most one pinned source, each a last-writer-wins register (D3).
public struct Preferences: Hashable, Sendable {
    /// One pin as it is stored; a nil source is an unpin, kept so that an older pin can't come back.
    public struct Pin: Hashable, Sendable {
        public let metric: Metric
        public let source: Source?
        public let version: Version

        public init(metric: Metric, source: Source?, version: Version) {
            self.metric = metric
            self.source = source
            self.version = version
        }
    }

    /// Sorted by metric, one a metric.
    public private(set) var pins: [Pin]

    public init(pins: [Pin] = []) {
        self.pins = []
        for pin in pins { apply(pin) }
    }

    public func pinnedSource(for metric: Metric) -> Source? {
        pins.first { $0.metric == metric }?.source
    }

    /// The larger version wins; of equal versions the larger source number, an unpin being the smallest.
    /// Returns whether a pin changed.
    @discardableResult
    public mutating func apply(_ pin: Pin) -> Bool {
        guard let index = pins.firstIndex(where: { $0.metric.rawValue >= pin.metric.rawValue }),
            pins[index].metric == pin.metric
        else {
            let place = pins.firstIndex { $0.metric.rawValue > pin.metric.rawValue } ?? pins.count
            pins.insert(pin, at: place)
            return pin.source != nil
        }
        let held = pins[index]
        let wins =
            (pin.version.rawValue, pin.source?.rawValue ?? 0) > (held.version.rawValue, held.source?.rawValue ?? 0)
        guard wins else { return false }
        pins[index] = pin
        return pin.source != held.source
    }

    /// Removes every pin older than a deletion (D7). Returns whether a pin changed.
    @discardableResult
    public mutating func remove(below watermark: Version) -> Bool {
        let gone = pins.filter { $0.version < watermark }
        pins.removeAll { $0.version < watermark }
        return gone.contains { $0.source != nil }
    }
}
