import DevelopmentStack

/// Says what happens to the parts, one line each.
struct UpReporter: Sendable {
    let console: Console

    func tell(_ event: StackEvent) {
        let style = console.out
        switch event {
        case .starting: break
        case .ready(let part, let address, let seconds):
            line(style.good("up"), part, address ?? "", "after \(tenths(seconds)) s")
        case .crashed(let part, let how, let delay, let log):
            line(style.bad("crashed"), part, how, "starts again in \(tenths(delay)) s; log: \(log)")
        case .stopping: break
        case .stopped(let part): line("stopped", part, "", "")
        case .killed(let part): line(style.warning("killed"), part, "", "it did not end by itself")
        }
    }

    /// Something that was done and is no part: migrations, topics.
    func step(_ name: String, _ detail: String, seconds: Double) {
        line(console.out.good("done"), name, detail, "after \(tenths(seconds)) s")
    }

    private func line(_ state: String, _ name: String, _ detail: String, _ more: String) {
        let width = state.contains("\u{1B}") ? 17 : 8
        let columns = [padded(state, width), padded(name, 14), padded(detail, 28), more]
        console.print("  " + columns.joined(separator: " ").trimmedEnd)
    }

    private func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

extension String {
    var trimmedEnd: String { String(reversed().drop { $0 == " " }.reversed()) }
}
