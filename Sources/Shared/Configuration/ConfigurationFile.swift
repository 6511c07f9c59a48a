/// `KEY=VALUE` lines. Blank lines and lines that begin with `#` don't count; a value may stand in a pair of quotes,
/// which are taken off; nothing else is special in it.
struct ConfigurationFile {
    private(set) var values: [String: String] = [:]
    private(set) var problems: [ConfigurationErrors.Problem] = []

    init(parsing text: String, path: String) {
        var number = 0
        for raw in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            number += 1
            let line = Self.trimmed(raw)
            if line.isEmpty || line.hasPrefix("#") { continue }
            let place = "\(path), line \(number):"
            guard let equals = line.firstIndex(of: "=") else {
                problems.append(.init(place: place, rule: "must read KEY=VALUE"))
                continue
            }
            let key = String(Self.trimmed(line[..<equals]))
            guard key.hasPrefix(Settings.prefix) else {
                problems.append(.init(place: place, rule: "must name a key that begins with \(Settings.prefix)"))
                continue
            }
            guard values[key] == nil else {
                problems.append(.init(place: place, rule: "repeats \(key): keep one"))
                continue
            }
            values[key] = String(Self.unquoted(Self.trimmed(line[line.index(after: equals)...])))
        }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }

    private static func unquoted(_ text: Substring) -> Substring {
        guard text.count >= 2, let first = text.first, first == text.last, first == "\"" || first == "'" else {
            return text
        }
        return text.dropFirst().dropLast()
    }
}
