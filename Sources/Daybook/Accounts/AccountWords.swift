import Domain

/// Reads what commands about accounts take as words. Pure.
enum AccountWords {
    static func source(_ text: String) throws -> Source {
        if let source = Source(name: text) { return source }
        throw unknown("SOURCE", text, among: Source.allCases.map(\.description))
    }

    /// Nil for `none`.
    static func sourceOrNone(_ text: String) throws -> Source? {
        if text == "none" { return nil }
        if let source = Source(name: text) { return source }
        throw unknown("SOURCE", text, among: Source.allCases.map(\.description) + ["none"])
    }

    static func metric(_ text: String) throws -> Metric {
        if let metric = Metric(name: text) { return metric }
        throw unknown("METRIC", text, among: Metric.allCases.map { $0.name.description })
    }

    private static func unknown(_ what: String, _ text: String, among names: [String]) -> CommandFailure {
        let guess = nearestWord(to: text, among: names).map { "Did you mean '\($0)'? " } ?? ""
        return .usage("\(what) can't be '\(text)'", next: guess + "It takes \(names.joined(separator: ", ")).")
    }
}
