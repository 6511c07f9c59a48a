import Domain
import JSON

/// What a record can be keyed by.
protocol RecordKey {
    init?(ascii: Span<UInt8>)
}

extension UUID128: RecordKey {}
extension DeviceTokenHash: RecordKey {}

/// The members of a record that has few of them, each at most once; unknown ones are ignored.
struct RecordMembers {
    private let object: JSONObject

    init(_ object: JSONObject) {
        self.object = object
    }

    /// A record as a broker hands it over.
    typealias Parts = (
        key: UnsafeRawBufferPointer?, value: UnsafeRawBufferPointer?, headers: RecordHeaders, appendTime: Instant?
    )

    /// Checks a record's headers, key and size, and reads it with the body.
    static func decode<Key: RecordKey, Decoded>(
        _ parts: Parts,
        schema: Schema,
        limit: Int,
        parser: JSONParser,
        _ body: (Key, Envelope, RecordMembers) throws(PoisonReason) -> Decoded
    ) -> Result<Decoded, PoisonReason> {
        do throws(PoisonReason) {
            let envelope = try Envelope(parts.headers, schema: schema, appendTime: parts.appendTime)
            guard let bytes = parts.key, let key = Key(ascii: bytes.octets.span) else { throw .badKey }
            return .success(try body(key, envelope, RecordMembers(parts.value, limit: limit, parser: parser)))
        } catch {
            return .failure(error)
        }
    }

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
