/// Everything that is wrong with the settings, found in one go. Names keys and rules, never values.
public struct ConfigurationErrors: Error, Sendable, CustomStringConvertible {
    public struct Problem: Hashable, Sendable, CustomStringConvertible {
        /// The key, or the file and line.
        public let place: String
        public let rule: String

        public var description: String { "\(place) \(rule)" }
    }

    public let problems: [Problem]

    public var description: String {
        let count = problems.count == 1 ? "1 setting is" : "\(problems.count) settings are"
        let lines = problems.map { "  \($0)\n" }.joined()
        return "\(count) wrong:\n\(lines)`daybook config` lists every setting with its type, default and range."
    }
}
