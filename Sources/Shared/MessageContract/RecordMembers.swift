import Domain
import JSON

/// The members of a record that has few of them, each at most once; unknown ones are ignored.
struct RecordMembers {
    private let object: JSONObject

    /// Reads the value of a record; it is copied, so that nothing need lie behind it.
    init(_ value: UnsafeRawBufferPointer?, limit: Int, parser: JSONParser) throws(PoisonReason) {
        guard let value else { throw .missingValue }
        guard value.count <= limit else { throw .tooLarge }
        let root: JSONValue
        do {
            root = try parser.parse(copying: value)
        } catch {
            throw .badJSON
        }
        guard let object = root.object else { throw .badShape }
        self.object = object
    }

    /// The member of that name; null is the same as leaving it out.
    func value(_ name: StaticString) throws(PoisonReason) -> JSONValue? {
        do {
            guard let value = try object.member(name), !value.isNull else { return nil }
            return value
        } catch {
            throw .duplicateKey
        }
    }

    /// The text of a member, or nil without it; a longer one is another shape.
    func text(_ name: StaticString, longest: Int = 64) throws(PoisonReason) -> JSONText? {
        guard let value = try value(name) else { return nil }
        guard let text = value.text, text.count <= longest else { throw .badShape }
        return text
    }

    func string(_ name: StaticString, longest: Int) throws(PoisonReason) -> String? {
        try text(name, longest: longest).map { $0.isEmpty ? "" : String(decoding: $0, as: UTF8.self) }
    }

    func source(_ name: StaticString) throws(PoisonReason) -> Source? {
        guard let text = try text(name) else { return nil }
        for candidate in Source.allCases where text.equals(candidate.name) { return candidate }
        throw .badSource
    }
}
