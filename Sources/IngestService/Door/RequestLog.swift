import Domain
import HTTPServer
import Observability

/// How one request is called in logs and problems: by the id that its records carry too, and by the sender's trace.
struct RequestName: Sendable {
    var event: EventID
    /// The trace id of a `traceparent` that is well formed.
    var trace: UUID128?
}

/// Writes of requests: each at the level `debug`; else those that were refused for the server's sake, so many a second.
/// One loop's own.
struct RequestLog {
    /// What is beyond is only counted: a broker that is away must not fill a disk.
    static let linesPerSecond = 10

    private let log: Log
    private var second: Int64 = 0
    private var written = 0
    private var withheld = 0

    init(_ log: Log) {
        self.log = log
    }

    /// Whether a request with this answer is written at all.
    func writes(_ status: Int) -> Bool {
        log.isEnabled(.debug) || (status >= 500 && log.isEnabled(.warning))
    }

    /// Writes a line of an answered request, if it is one to write. `name` is nil for a request of no route that writes,
    /// `code` for success; `now` is the monotonic clock, in nanoseconds.
    mutating func note(_ name: RequestName?, route: StaticString, status: Int, code: String?, now: Int64) {
        guard writes(status) else { return }
        if !log.isEnabled(.debug) {
            let moment = now / 1_000_000_000
            if moment != second {
                if withheld > 0 { log.warning("more requests were refused", [.count: .integer(withheld)]) }
                (second, written, withheld) = (moment, 0, 0)
            }
            written += 1
            guard written <= Self.linesPerSecond else {
                withheld += 1
                return
            }
        }
        var named = log
        if let trace = name?.trace { named = log.with(traceID: trace.hexadecimal) }
        let event: LogValue = name.map { .text($0.event.description) } ?? "none"
        if let code {
            named.write(
                status >= 500 ? .warning : .debug,
                "request refused",
                [.eventID: event, .route: .constant(StaticText(route)), .status: .integer(status), .code: .text(code)]
            )
        } else {
            named.debug(
                "request answered",
                [.eventID: event, .route: .constant(StaticText(route)), .status: .integer(status)]
            )
        }
    }
}

extension UUID128 {
    /// 32 digits, as a `traceparent` has them.
    var hexadecimal: String {
        func digits(_ word: UInt64) -> String {
            let text = String(word, radix: 16)
            return String(repeating: "0", count: 16 - text.utf8.count) + text
        }
        return digits(high) + digits(low)
    }
}

extension Traceparent {
    /// The trace id of one that is well formed.
    static func traceID(_ bytes: UnsafeRawBufferPointer) -> UUID128? {
        guard isValid(bytes) else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for index in 3..<35 {
            let digit = UInt64(bytes[index] < 58 ? bytes[index] - 48 : bytes[index] - 87)
            if index < 19 { words.0 = words.0 << 4 | digit } else { words.1 = words.1 << 4 | digit }
        }
        return UUID128(high: words.0, low: words.1)
    }
}
