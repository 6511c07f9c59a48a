import Glibc
import Synchronization

/// Where finished lines go. Called by every thread that logs, possibly at once.
public protocol LogSink: Sendable {
    /// `line` is one JSON object with its line feed.
    func write(_ line: [UInt8])
}

/// Standard error: one `write(2)` a line. A line that can't be written is dropped: logging never stops a service.
public struct StandardErrorSink: LogSink {
    public init() {}

    public func write(_ line: [UInt8]) {
        line.withUnsafeBytes { buffer in
            var written = 0
            while written < buffer.count {
                let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
                let count = Glibc.write(STDERR_FILENO, rest.baseAddress, rest.count)
                if count > 0 {
                    written += count
                } else if count == 0 || errno != EINTR {
                    return
                }
            }
        }
    }
}

/// Keeps lines in memory, for tests.
public final class MemorySink: LogSink {
    private let stored = Mutex<[String]>([])

    public init() {}

    public func write(_ line: [UInt8]) {
        let text = String(decoding: line, as: UTF8.self)
        stored.withLock { $0.append(text) }
    }

    /// Every line so far, with its line feed.
    public var lines: [String] {
        stored.withLock { $0 }
    }
}
