import Domain
import JSON
import MessageContract

/// The members of a request's top level, each at most once; unknown ones are ignored.
struct RequestFields {
    private var source = JSONTextMember.nothing
    private var origin = JSONTextMember.nothing
    private var observedAt = JSONTextMember.nothing
    private var timeZone = JSONTextMember.nothing
    private var zeros = JSONTextMember.nothing
    private(set) var days: JSONValue?

    /// Nothing is given yet.
    init() {}

    init(_ object: JSONObject) throws(RequestProblem) {
        var object = object
        var seen: UInt8 = 0
        while let (key, value) = object.next() {
            switch key.count {
            case 4 where key.equals("days"):
                try Self.see(&seen, 1, "days")
                days = value
            case 5 where key.equals("zeros"): try Self.set(&zeros, value, &seen, 2, "zeros")
            case 6 where key.equals("source"): try Self.set(&source, value, &seen, 4, "source")
            case 6 where key.equals("origin"): try Self.set(&origin, value, &seen, 8, "origin")
            case 9 where key.equals("time_zone"): try Self.set(&timeZone, value, &seen, 16, "time_zone")
            case 11 where key.equals("observed_at"): try Self.set(&observedAt, value, &seen, 32, "observed_at")
            default: break
            }
        }
    }

    private static func see(_ seen: inout UInt8, _ bit: UInt8, _ name: String) throws(RequestProblem) {
        guard seen & bit == 0 else { throw .badField(name, "duplicate_key", "Send this field once.") }
        seen |= bit
    }

    private static func set(
        _ field: inout JSONTextMember,
        _ value: JSONValue,
        _ seen: inout UInt8,
        _ bit: UInt8,
        _ name: String
    ) throws(RequestProblem) {
        try see(&seen, bit, name)
        field = JSONTextMember(value)
    }

    /// The fields that are texts, in the order of `set`'s numbers.
    static let textNames: [StaticString] = ["source", "origin", "observed_at", "time_zone", "zeros"]

    /// Sets a text by its field's number.
    mutating func set(_ number: Int, _ text: JSONText) {
        switch number {
        case 0: source = .text(text)
        case 1: origin = .text(text)
        case 2: observedAt = .text(text)
        case 3: timeZone = .text(text)
        case 4: zeros = .text(text)
        default: break
        }
    }

    /// The text of an optional field; null is the same as leaving it out.
    private static func text(_ field: JSONTextMember, _ name: String) throws(RequestProblem) -> JSONText? {
        switch field {
        case .nothing: nil
        case .text(let text): text
        case .somethingElse: throw .badShape(name, "This must be a string.")
        }
    }

    func readSource() throws(RequestProblem) -> Source {
        guard let text = try Self.text(source, "source") else {
            throw .badShape("source", "Say which source the days are from.")
        }
        for candidate in Source.allCases where text.equals(candidate.name) { return candidate }
        throw .badField("source", "unknown_source", "Send one of the sources that the interface's description names.")
    }

    /// Health Connect's names for the phone's own sensors become one.
    func readOrigin(of source: Source) throws(RequestProblem) -> String {
        guard let text = try Self.text(origin, "origin"), !text.isEmpty else { return "" }
        guard text.count <= RecordLimits.originBytes else {
            throw .badField("origin", "too_long", "Send at most 128 bytes.")
        }
        if source == .healthConnect, UnsafeRawBufferPointer(text).starts(with: DaysRules.phoneOriginPrefix) {
            return DaysRules.phoneOrigin.description
        }
        return String(decoding: text, as: UTF8.self)
    }

    func readObservedAt() throws(RequestProblem) -> Instant? {
        guard let text = try Self.text(observedAt, "observed_at") else { return nil }
        guard let instant = Instant(rfc3339: text.span) else {
            throw .badField("observed_at", "bad_time", "Send a time with its zone, such as 2026-09-02T21:14:05Z.")
        }
        return instant
    }

    func readTimeZone() throws(RequestProblem) -> JSONText? {
        try Self.text(timeZone, "time_zone")
    }

    func readKeepsZeros() throws(RequestProblem) -> Bool {
        guard let text = try Self.text(zeros, "zeros") else { return false }
        if text.equals("missing") { return false }
        if text.equals("observed") { return true }
        throw .badField("zeros", "unknown_value", "Send missing or observed, or leave it out.")
    }
}
