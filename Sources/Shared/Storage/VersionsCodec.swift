internal import Domain

/// How a source row's versions are stored: one for most metrics in a column of its own, the others as exceptions.
///
/// Most rows come from one reading and have one version, so the common case costs eight bytes and not eight a metric.
enum VersionsCodec {
    /// One byte of metric and eight of version, big-endian, in the order of the metrics.
    static let bytesAnException = 9

    /// The version that most metrics have; of equally common ones the newest. Zero for an empty row.
    static func common(of row: SourceDay) -> Int64 {
        if let shared = row.sharedVersion { return row.isEmpty ? 0 : shared.rawValue }
        var best: (count: Int, version: Int64) = (0, 0)
        var uniform: Int64?
        var isUniform = true
        for metric in row.values.mask {
            guard let version = row.version(of: metric)?.rawValue else { continue }
            if let uniform, uniform != version { isUniform = false }
            uniform = uniform ?? version
        }
        if isUniform { return uniform ?? 0 }
        for metric in row.values.mask {
            guard let version = row.version(of: metric)?.rawValue else { continue }
            var count = 0
            for other in row.values.mask where row.version(of: other)?.rawValue == version { count += 1 }
            if (count, version) > best { best = (count, version) }
        }
        return best.version
    }

    /// Appends the versions that differ from the common one. Returns whether there were any.
    static func appendExceptions(of row: SourceDay, common: Int64, to bytes: inout [UInt8]) -> Bool {
        if row.sharedVersion != nil { return false }
        let start = bytes.count
        for metric in row.values.mask {
            guard let version = row.version(of: metric)?.rawValue, version != common else { continue }
            bytes.append(metric.rawValue)
            append(version, to: &bytes)
        }
        return bytes.count > start
    }

    /// Returns nil where the bytes are not what `appendExceptions` writes.
    static func exceptions(in bytes: Span<UInt8>) -> [(metric: Metric, version: Int64)]? {
        guard bytes.count % bytesAnException == 0 else { return nil }
        var result: [(metric: Metric, version: Int64)] = []
        for start in stride(from: 0, to: bytes.count, by: bytesAnException) {
            guard let metric = Metric(rawValue: bytes[start]) else { return nil }
            result.append((metric, bigEndian(bytes, at: start + 1)))
        }
        return result
    }

    static func append(_ word: Int64, to bytes: inout [UInt8]) {
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: word >> Int64(shift)))
        }
    }

    static func bigEndian(_ bytes: Span<UInt8>, at start: Int) -> Int64 {
        var word: UInt64 = 0
        for index in start..<(start + 8) { word = word << 8 | UInt64(bytes[index]) }
        return Int64(bitPattern: word)
    }
}
