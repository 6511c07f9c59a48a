/// JSON for scripts, with its keys in the order in which they were given.
indirect enum JSONDocument: Sendable {
    case null
    case bool(Bool)
    case integer(Int)
    /// A value in tenths: `6125` is `612.5`.
    case tenths(Int32)
    case number(Double)
    case string(String)
    case array([JSONDocument])
    case object([(String, JSONDocument)])
    /// JSON that somebody else wrote, as one line.
    case raw(String)

    /// Indented by two spaces a level.
    func text(indent: Int = 0) -> String {
        let margin = String(repeating: "  ", count: indent + 1)
        let end = "\n" + String(repeating: "  ", count: indent)
        switch self {
        case .null: return "null"
        case .bool(let value): return value ? "true" : "false"
        case .integer(let value): return String(value)
        case .tenths(let value):
            let sign = value < 0 ? "-" : ""
            let magnitude = value.magnitude
            return magnitude % 10 == 0 ? "\(sign)\(magnitude / 10)" : "\(sign)\(magnitude / 10).\(magnitude % 10)"
        case .number(let value): return value.isFinite ? String(value) : "null"
        case .string(let value): return Self.quoted(value)
        case .raw(let value): return value
        case .array(let items):
            if items.isEmpty { return "[]" }
            return "[\n" + items.map { margin + $0.text(indent: indent + 1) }.joined(separator: ",\n") + end + "]"
        case .object(let members):
            if members.isEmpty { return "{}" }
            let lines = members.map { margin + Self.quoted($0.0) + ": " + $0.1.text(indent: indent + 1) }
            return "{\n" + lines.joined(separator: ",\n") + end + "}"
        }
    }

    private static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            default:
                if scalar.value < 0x20 || scalar.value == 0x7f {
                    let digits = String(scalar.value, radix: 16)
                    result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                } else {
                    result.unicodeScalars.append(scalar)
                }
            }
        }
        return result + "\""
    }
}
