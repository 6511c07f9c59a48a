/// What this build is. The number grows by one with every release, so that a migration can name the oldest build
/// that may still run against the schema it leaves behind.
public struct BuildInfo: Hashable, Sendable {
    public let version: StaticText
    public let number: Int

    public init(version: StaticString, number: Int) {
        self.version = StaticText(version)
        self.number = number
    }

    public static let current = BuildInfo(version: "0.1.0", number: 2)
}

extension BuildInfo: CustomStringConvertible {
    /// As every program prints it.
    public var description: String { "\(version) (build \(number))" }
}

/// A `StaticString` that can be compared: text that is known when the program is compiled, and so holds no data.
public struct StaticText: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
    public let description: String

    public init(_ text: StaticString) {
        description = text.description
    }

    public init(stringLiteral text: StaticString) {
        self.init(text)
    }
}
