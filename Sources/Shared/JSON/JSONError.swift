/// Why a body is not the JSON we read. Carries nothing of the body.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable {
        case syntax = "bad_json"
        case encoding = "bad_encoding"
        case number = "bad_number"
        case tooDeep = "too_deep"
        case outOfMemory = "out_of_memory"
        case empty = "empty"
        case nul = "nul"
        case duplicateKey = "duplicate_key"
    }

    public let code: Code

    public init(_ code: Code) {
        self.code = code
    }

    public var description: String {
        switch code {
        case .syntax: "This is not JSON: check quotes, commas and brackets."
        case .encoding: "This is not UTF-8, or a string holds half of a surrogate pair: send UTF-8."
        case .number: "A number is malformed or too large: send plain decimal numbers."
        case .tooDeep: "The JSON is nested too deeply: flatten it."
        case .outOfMemory: "There was no memory to read the JSON: send a smaller body."
        case .empty: "The body is empty: send a JSON document."
        case .nul: "A string holds U+0000: leave it out."
        case .duplicateKey: "An object has the same key twice: send each key once."
        }
    }
}
