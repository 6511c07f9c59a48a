public enum LogLevel: Int, Comparable, CaseIterable, Sendable {
    case debug
    case info
    case warning
    case error

    public static func < (left: LogLevel, right: LogLevel) -> Bool {
        left.rawValue < right.rawValue
    }

    public var name: StaticString {
        switch self {
        case .debug: "debug"
        case .info: "info"
        case .warning: "warning"
        case .error: "error"
        }
    }

    /// Nil for a name that isn't one of debug, info, warning and error.
    public init?(name: String) {
        guard let level = Self.allCases.first(where: { $0.name.description == name }) else { return nil }
        self = level
    }
}
