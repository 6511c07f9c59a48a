import Foundation

/// Looks into the log of a part.
public struct LogFile: Sendable {
    public let path: String

    public init(path: String) {
        self.path = path
    }

    public var size: UInt64 {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return attributes?[.size] as? UInt64 ?? 0
    }

    /// The last lines that are not empty, oldest first, each cut to 300 characters.
    public func lastLines(_ count: Int) -> [String] {
        let lines = text(from: size > 16_384 ? size - 16_384 : 0).split(separator: "\n")
        return lines.suffix(count).map { String($0.prefix(300)) }
    }

    /// Whether a text stands in what was written since the file had that size.
    public func contains(_ wanted: String, from offset: UInt64) -> Bool {
        text(from: offset).contains(wanted)
    }

    private func text(from offset: UInt64) -> String {
        guard let handle = FileHandle(forReadingAtPath: path) else { return "" }
        defer { try? handle.close() }
        guard (try? handle.seek(toOffset: offset)) != nil, let data = try? handle.read(upToCount: 1 << 20) else {
            return ""
        }
        return String(decoding: data, as: UTF8.self)
    }
}
