public import Domain

/// The figures by which wakes are decided.
public struct WakePolicy: Hashable, Sendable {
    /// Between the last push of a phone and a wake, and between two wakes.
    public var spacingSeconds = WakeRule.spacingSeconds
    /// Between two wakes of a user who has left as many unanswered as `strikes`.
    public var longSpacingSeconds = 24 * 3600
    public var strikes = 3
    /// How far the workers may be behind before nobody is woken.
    public var lagSeconds = 300
    public var schedule: SendSchedule
    /// Nil: at any time of the user's day.
    public var quietHours: QuietHours?

    public init(schedule: SendSchedule = SendSchedule(), quietHours: QuietHours? = nil) {
        self.schedule = schedule
        self.quietHours = quietHours
    }

    /// How long after a wake the next one may come.
    public func spacing(unanswered: Int) -> Int {
        unanswered >= strikes ? longSpacingSeconds : spacingSeconds
    }
}

/// A stretch of the user's local day in which nobody is woken; it may go over midnight.
public struct QuietHours: Hashable, Sendable {
    /// Minutes since local midnight; `end` is no longer quiet.
    public let start: Int
    public let end: Int

    /// Nil where nothing or all of the day would be quiet.
    public init?(start: Int, end: Int) {
        guard (0..<1440).contains(start), (0..<1440).contains(end), start != end else { return nil }
        self.start = start
        self.end = end
    }

    /// Reads `22:00-07:00`.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let start = Self.minute(parts[0]), let end = Self.minute(parts[1]) else { return nil }
        self.init(start: start, end: end)
    }

    private static func minute(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2,
            parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy { (48...57).contains($0) } }),
            let hour = Int(parts[0]), let minute = Int(parts[1]), hour < 24, minute < 60
        else { return nil }
        return hour * 60 + minute
    }

    /// When the quiet stretch that holds the instant ends; nil outside of one. The offset is the seconds that the user's
    /// zone is east of UTC then.
    public func end(around instant: Instant, secondsFromUTC offset: Int) -> Instant? {
        let local = instant.advanced(bySeconds: offset).microseconds
        let day: Int64 = 86_400_000_000
        let sinceMidnight = local >= 0 ? local % day : (local % day + day) % day
        let minute = Int(sinceMidnight / 60_000_000)
        let isQuiet = start < end ? (start..<end).contains(minute) : minute >= start || minute < end
        guard isQuiet else { return nil }
        var left = Int64(end) * 60_000_000 - sinceMidnight
        if left <= 0 { left += day }
        return Instant(microseconds: instant.microseconds.advancedSaturating(by: left))
    }
}

extension QuietHours: CustomStringConvertible {
    public var description: String {
        func clock(_ minute: Int) -> String {
            (minute / 60 < 10 ? "0" : "") + "\(minute / 60):" + (minute % 60 < 10 ? "0" : "") + "\(minute % 60)"
        }
        return clock(start) + "-" + clock(end)
    }
}

extension Int64 {
    func advancedSaturating(by other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }
}

extension Int {
    func subtractingSaturating(_ other: Int) -> Int {
        let (difference, overflow) = subtractingReportingOverflow(other)
        return overflow ? (other < 0 ? .max : .min) : difference
    }
}
