/// The bytes of a string, unescaped UTF-8, in the parser's memory; at least eight readable bytes follow them.
public typealias JSONText = UnsafeBufferPointer<UInt8>

/// A value of a parsed document: a place on simdjson's tape. Good until its parser's next `parse`.
///
/// The tape is made and checked by simdjson, so that walking it needs no checks of its own: each word has a type in
/// its top byte; a container's word says where the next value stands, a number's word is followed by the number.
@frozen
public struct JSONValue {
    @usableFromInline let tape: UnsafePointer<UInt64>
    @usableFromInline let strings: UnsafePointer<UInt8>
    @usableFromInline let index: Int

    @inlinable
    init(tape: UnsafePointer<UInt64>, strings: UnsafePointer<UInt8>, index: Int) {
        self.tape = tape
        self.strings = strings
        self.index = index
    }

    @frozen
    public enum Kind: UInt8, Sendable {
        case object = 0x7b
        case array = 0x5b
        case string = 0x22
        case integer = 0x6c
        /// An integer above `Int64.max`.
        case unsigned = 0x75
        case double = 0x64
        case `true` = 0x74
        case `false` = 0x66
        case null = 0x6e
    }

    @inlinable
    public var kind: Kind { Kind(rawValue: typeByte) ?? .null }

    @inlinable
    var typeByte: UInt8 { UInt8(truncatingIfNeeded: tape[index] >> 56) }

    @inlinable
    public var isNull: Bool { typeByte == Kind.null.rawValue }

    /// Where the value after this one stands.
    @inlinable
    var next: Int {
        switch typeByte {
        case 0x7b, 0x5b: Int(tape[index] & 0xffff_ffff)
        case 0x6c, 0x75, 0x64: index + 2
        default: index + 1
        }
    }

    /// The string's bytes, or nil for another kind.
    @inlinable
    public var text: JSONText? {
        guard typeByte == Kind.string.rawValue else { return nil }
        return uncheckedText
    }

    @inlinable
    var uncheckedText: JSONText {
        let start = strings + Int(tape[index] & 0x00ff_ffff_ffff_ffff)
        let length = UnsafeRawPointer(start).loadUnaligned(as: UInt32.self)
        return JSONText(start: start + 4, count: Int(length))
    }

    /// The string as a `String`, or nil for another kind.
    public var string: String? {
        guard let text else { return nil }
        return String(decoding: text, as: UTF8.self)
    }

    /// A number written without fraction and exponent, or nil for another kind.
    @inlinable
    public var integer: Int64? {
        typeByte == Kind.integer.rawValue ? Int64(bitPattern: tape[index + 1]) : nil
    }

    /// A whole number above `Int64.max`, or nil for another kind.
    @inlinable
    public var unsigned: UInt64? {
        typeByte == Kind.unsigned.rawValue ? tape[index + 1] : nil
    }

    /// Whether no more than so many objects and arrays stand inside each other, this one included.
    public func isNested(atMost levels: Int) -> Bool {
        if var members = object {
            guard levels > 0 else { return false }
            while let (_, value) = members.next() {
                guard value.isNested(atMost: levels - 1) else { return false }
            }
        } else if var elements = array {
            guard levels > 0 else { return false }
            while let value = elements.next() {
                guard value.isNested(atMost: levels - 1) else { return false }
            }
        }
        return true
    }

    /// Any number as a double, or nil for another kind.
    @inlinable
    public var double: Double? {
        switch typeByte {
        case 0x64: Double(bitPattern: tape[index + 1])
        case 0x6c: Double(Int64(bitPattern: tape[index + 1]))
        case 0x75: Double(tape[index + 1])
        default: nil
        }
    }

    @inlinable
    public var bool: Bool? {
        switch typeByte {
        case Kind.true.rawValue: true
        case Kind.false.rawValue: false
        default: nil
        }
    }

    /// The members in the order of the document, or nil for another kind.
    @inlinable
    public var object: JSONObject? {
        guard typeByte == Kind.object.rawValue else { return nil }
        return JSONObject(tape: tape, strings: strings, index: index + 1, end: next - 1)
    }

    /// The elements, or nil for another kind.
    @inlinable
    public var array: JSONArray? {
        guard typeByte == Kind.array.rawValue else { return nil }
        return JSONArray(tape: tape, strings: strings, index: index + 1, end: next - 1)
    }
}

/// Walks an object's members. A key that occurs twice comes twice: whoever reads known keys checks for it.
@frozen
public struct JSONObject {
    @usableFromInline let tape: UnsafePointer<UInt64>
    @usableFromInline let strings: UnsafePointer<UInt8>
    @usableFromInline var index: Int
    @usableFromInline let end: Int

    @inlinable
    init(tape: UnsafePointer<UInt64>, strings: UnsafePointer<UInt8>, index: Int, end: Int) {
        self.tape = tape
        self.strings = strings
        self.index = index
        self.end = end
    }

    @inlinable
    public mutating func next() -> (key: JSONText, value: JSONValue)? {
        guard index < end else { return nil }
        let key = JSONValue(tape: tape, strings: strings, index: index).uncheckedText
        let value = JSONValue(tape: tape, strings: strings, index: index + 1)
        index = value.next
        return (key, value)
    }

    /// The member of that name among those not yet walked.
    ///
    /// - Throws: `duplicateKey` when it occurs twice.
    public func member(_ name: StaticString) throws(JSONError) -> JSONValue? {
        var walk = self
        var found: JSONValue?
        while let (key, value) = walk.next() {
            guard key.equals(name) else { continue }
            guard found == nil else { throw JSONError(.duplicateKey) }
            found = value
        }
        return found
    }
}

/// Walks an array's elements.
@frozen
public struct JSONArray {
    @usableFromInline let tape: UnsafePointer<UInt64>
    @usableFromInline let strings: UnsafePointer<UInt8>
    @usableFromInline var index: Int
    @usableFromInline let end: Int

    @inlinable
    init(tape: UnsafePointer<UInt64>, strings: UnsafePointer<UInt8>, index: Int, end: Int) {
        self.tape = tape
        self.strings = strings
        self.index = index
        self.end = end
    }

    @inlinable
    public mutating func next() -> JSONValue? {
        guard index < end else { return nil }
        let value = JSONValue(tape: tape, strings: strings, index: index)
        index = value.next
        return value
    }

    /// How many elements there are, at most `limit`.
    public func count(upTo limit: Int) -> Int {
        var walk = self
        var count = 0
        while count < limit, walk.next() != nil { count += 1 }
        return count
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Byte for byte the same as an ASCII literal.
    @inlinable
    public func equals(_ name: StaticString) -> Bool {
        guard count == name.utf8CodeUnitCount else { return false }
        let other = name.utf8Start
        for index in 0..<count where self[index] != other[index] { return false }
        return true
    }
}
