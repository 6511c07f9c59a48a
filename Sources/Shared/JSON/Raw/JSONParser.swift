import CSimdJSON

/// Reads JSON into values that point into the parser's own memory: nothing is copied, nothing allocated once the
/// parser has seen its largest body.
///
/// One parser belongs to one thread. A value is good until the parser's next `parse` or its end.
public final class JSONParser {
    /// How many readable bytes have to lie behind a body given to `parse(padded:)`; their content does not matter.
    public static let padding = max(64, daybook_json_padding())

    private let handle: OpaquePointer
    private var copy: UnsafeMutableRawBufferPointer

    /// - Parameter maximumDepth: how many objects and arrays may stand inside each other, not counting an empty one.
    /// - Throws: `outOfMemory`.
    public init(maximumDepth: Int = 32) throws(JSONError) {
        // simdjson refuses the level that reaches its limit.
        guard let handle = daybook_json_create(max(1, maximumDepth) + 1) else { throw JSONError(.outOfMemory) }
        self.handle = handle
        copy = .allocate(byteCount: 16 << 10, alignment: 64)
    }

    deinit {
        daybook_json_free(handle)
        copy.deallocate()
    }

    /// Reads a body that is followed by `padding` readable bytes, without copying it.
    public func parse(padded body: UnsafeRawBufferPointer) throws(JSONError) -> JSONValue {
        guard let start = body.baseAddress, !body.isEmpty else { throw JSONError(.empty) }
        let document = daybook_json_parse(handle, start.assumingMemoryBound(to: UInt8.self), body.count)
        guard let tape = document.tape, let strings = document.strings else {
            throw JSONError(Self.code(document.code))
        }
        return JSONValue(tape: tape, strings: strings, index: 1)
    }

    /// Copies the body behind which there is nothing to spare, then reads the copy.
    public func parse(copying body: UnsafeRawBufferPointer) throws(JSONError) -> JSONValue {
        try parse(padded: padded(copying: body))
    }

    /// Copies the body for `parse(padded:)`. The copy lives until the next one is made.
    public func padded(copying body: UnsafeRawBufferPointer) throws(JSONError) -> UnsafeRawBufferPointer {
        let (needed, overflow) = body.count.addingReportingOverflow(Self.padding)
        guard !overflow else { throw JSONError(.outOfMemory) }
        if copy.count < needed || (copy.count > 2 << 20 && needed < 256 << 10) {
            copy.deallocate()
            copy = .allocate(byteCount: max(needed, 16 << 10), alignment: 64)
        }
        copy.copyMemory(from: body)
        return UnsafeRawBufferPointer(start: copy.baseAddress, count: body.count)
    }

    private static func code(_ code: Int32) -> JSONError.Code {
        switch Int(code) {
        case Int(DAYBOOK_JSON_ENCODING): .encoding
        case Int(DAYBOOK_JSON_NUMBER): .number
        case Int(DAYBOOK_JSON_DEPTH): .tooDeep
        case Int(DAYBOOK_JSON_MEMORY): .outOfMemory
        case Int(DAYBOOK_JSON_EMPTY): .empty
        case Int(DAYBOOK_JSON_NUL): .nul
        default: .syntax
        }
    }
}
