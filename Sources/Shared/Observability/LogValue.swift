/// One piece of data in a log line. The closed set keeps whole objects, and so payloads, out of the logs.
///
/// `text` is for ids, names and fixed descriptions, never for a health value, a token, a JWT, a body or a setting
/// that is secret. Longer text is cut at `LogLine.longestText` bytes.
public enum LogValue: Sendable, Equatable {
    case integer(Int64)
    case double(Double)
    case flag(Bool)
    case constant(StaticText)
    case text(String)

    public static func integer(_ value: some BinaryInteger) -> LogValue {
        .integer(Int64(clamping: value))
    }
}

extension LogValue: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByStringLiteral
{
    public init(integerLiteral value: Int64) {
        self = .integer(value)
    }

    public init(floatLiteral value: Double) {
        self = .double(value)
    }

    public init(booleanLiteral value: Bool) {
        self = .flag(value)
    }

    public init(stringLiteral value: StaticString) {
        self = .constant(StaticText(value))
    }
}
