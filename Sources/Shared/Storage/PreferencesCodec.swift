internal import Domain

/// How preferences are stored in `accounts.preferences`: per pin one byte of metric, one of source (0: unpinned) and
/// eight of version, big-endian, in the order of the metrics.
enum PreferencesCodec {
    static let bytesAPin = 10

    static func encode(_ preferences: Preferences) -> [UInt8] {
        var bytes: [UInt8] = []
        for pin in preferences.pins {
            bytes.append(pin.metric.rawValue)
            bytes.append(pin.source?.rawValue ?? 0)
            VersionsCodec.append(pin.version.rawValue, to: &bytes)
        }
        return bytes
    }

    /// Returns nil where the bytes are not what `encode` writes.
    static func decode(_ bytes: Span<UInt8>) -> Preferences? {
        guard bytes.count % bytesAPin == 0 else { return nil }
        var preferences = Preferences()
        for start in stride(from: 0, to: bytes.count, by: bytesAPin) {
            guard let metric = Metric(rawValue: bytes[start]) else { return nil }
            let source = Source(rawValue: bytes[start + 1])
            guard source != nil || bytes[start + 1] == 0 else { return nil }
            let version = Version(rawValue: VersionsCodec.bigEndian(bytes, at: start + 2))
            preferences.apply(.init(metric: metric, source: source, version: version))
        }
        return preferences
    }
}
