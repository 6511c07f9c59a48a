/// A member of an object that has to be a text if it is given.
public enum JSONTextMember {
    /// Left out, or null, which is the same.
    case nothing
    case text(JSONText)
    case somethingElse

    public init(_ value: JSONValue) {
        if let text = value.text { self = .text(text) } else { self = value.isNull ? .nothing : .somethingElse }
    }
}
