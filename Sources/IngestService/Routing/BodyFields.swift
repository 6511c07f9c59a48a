import Domain
import JSON

/// The members of a small body, each at most once; unknown ones are ignored.
struct BodyFields {
    private let object: JSONObject
    /// Stands before a field's name in errors: `points[3].`.
    private let path: String

    init(_ object: JSONObject, path: String = "") {
        self.object = object
        self.path = path
    }

    /// The member of that name, null or not.
    func value(_ name: StaticString) throws(RequestProblem) -> JSONValue? {
        do {
            return try object.member(name)
        } catch {
            throw .badField(path + name.description, "duplicate_key", "Send this field once.")
        }
    }

    /// The text of an optional field; null is the same as leaving it out.
    func text(_ name: StaticString, longest: Int) throws(RequestProblem) -> String? {
        guard let value = try value(name), !value.isNull else { return nil }
        guard let text = value.text else { throw .badShape(path + name.description, "This must be a string.") }
        guard text.count <= longest else {
            throw .badField(path + name.description, "too_long", "Send a shorter text.")
        }
        return text.isEmpty ? "" : String(decoding: text, as: UTF8.self)
    }

    /// A field that has to be there and to say something.
    func required(_ name: StaticString, longest: Int) throws(RequestProblem) -> String {
        guard let text = try text(name, longest: longest) else {
            throw .badShape(path + name.description, "This is missing.")
        }
        guard !text.isEmpty else { throw .badField(path + name.description, "empty", "Send a text.") }
        return text
    }
}
