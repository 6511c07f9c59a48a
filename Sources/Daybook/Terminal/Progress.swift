import DevelopmentStack

/// How far long work is: a line that redraws itself on a terminal, nothing elsewhere.
final class Progress {
    private let console: Console
    private let label: String
    private let unit: String
    private let started: Double
    private var shownAt = -1.0
    private var isShown = false

    /// `unit` is what is counted, such as `records`.
    init(_ console: Console, _ label: String, unit: String, now: Double = monotonicSeconds()) {
        self.console = console
        self.label = label
        self.unit = unit
        started = now
    }

    /// `fraction` is how much of everything is done, if that is not `done / total`: what an earlier run did is not in
    /// `done`.
    func show(_ done: Int, of total: Int, fraction: Double? = nil, now: Double = monotonicSeconds()) {
        guard console.isErrorTerminal, now - shownAt >= 0.2 else { return }
        shownAt = now
        isShown = true
        let part = fraction ?? (total > 0 ? Double(done) / Double(total) : 1)
        let line = Self.line(label, unit, done: done, fraction: part, seconds: now - started, console.err)
        console.raw("\r\u{1B}[K" + line)
    }

    /// Takes the line away, so that the outcome stands alone.
    func finish() {
        if isShown { console.raw("\r\u{1B}[K") }
        isShown = false
    }

    /// `replay  [#####-----]  50 %  12,000 records  4,000/s  3s left`. Pure.
    static func line(
        _ label: String,
        _ unit: String,
        done: Int,
        fraction: Double,
        seconds: Double,
        _ style: TextStyle
    ) -> String {
        let fraction = min(max(fraction.isFinite ? fraction : 0, 0), 1)
        let width = 24
        let filled = Int(fraction * Double(width))
        let bar = String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled)
        var line = "\(label)  [\(bar)]  \(Int(fraction * 100)) %  \(grouped(done)) \(unit)"
        guard seconds >= 0.5 else { return line }
        line += "  " + style.faint("\(grouped(Int(Double(done) / seconds)))/s")
        // Before one in a thousand is done, what is left is a guess that helps nobody.
        guard fraction > 0.001 else { return line }
        let left = seconds / fraction * (1 - fraction)
        return line + "  " + style.faint("\(PositionReport.shown(seconds: Int(min(left.rounded(.up), 9e6)))) left")
    }
}
