import Domain

/// The header `Retry-After`: seconds, or a date.
enum RetryAfter {
    /// The longest wait that is believed; what names a longer one gets this.
    static let most: Duration = .seconds(86_400)

    static func parse(_ value: [UInt8], now: Instant) -> Duration? {
        guard !value.isEmpty, value.count <= 64 else { return nil }
        if value.allSatisfy({ (48...57).contains($0) }) {
            guard let seconds = Int64(String(decoding: value, as: UTF8.self)) else { return most }
            return min(.seconds(seconds), most)
        }
        guard let date = date(value) else { return nil }
        let (left, overflow) = date.microseconds.subtractingReportingOverflow(now.microseconds)
        guard !overflow, left > 0 else { return .zero }
        return min(.microseconds(left), most)
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    private static func date(_ value: [UInt8]) -> Instant? {
        let parts = value.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
        guard parts.count == 6, parts[5] == "GMT", let month = months.firstIndex(of: parts[2]),
            let day = Int(parts[1]), let year = Int(parts[3]),
            let date = CalendarDay(year: year, month: month + 1, day: day)
        else { return nil }
        return Instant(rfc3339: "\(date)T\(parts[4])Z")
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
