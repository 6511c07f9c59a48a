/// Appends JSON to memory of its own; commas come by themselves.
///
/// Room is made once for each item and then written without further checks, which is what makes it quick.
public struct JSONWriter: ~Copyable {
    @usableFromInline var start: UnsafeMutablePointer<UInt8>
    @usableFromInline var capacity: Int
    @usableFromInline var length = 0
    @usableFromInline var needsComma = false

    public init(reserving capacity: Int = 256) {
        self.capacity = max(64, capacity)
        start = .allocate(capacity: self.capacity)
    }

    deinit {
        start.deallocate()
    }

    /// How many bytes were written so far.
    @inlinable
    public var count: Int { length }

    /// What was written so far, as a copy.
    public var bytes: [UInt8] { Array(UnsafeBufferPointer(start: start, count: count)) }

    /// Puts what was written so far in the place of what the array holds, in its memory if that can be had: the array
    /// is its only owner, and it fits.
    public func copy(into array: inout [UInt8]) {
        array.removeAll(keepingCapacity: true)
        array.append(contentsOf: UnsafeBufferPointer(start: start, count: count))
    }

    /// Empties the writer and keeps its memory.
    public mutating func reset() {
        length = 0
        needsComma = false
    }

    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// A key that needs no escaping.
    @inlinable
    @inline(__always)
    public mutating func key(_ name: StaticString) {
        let size = name.utf8CodeUnitCount
        beginItem(size &+ 3)
        let place = start + length
        place[0] = UInt8(ascii: "\"")
        (place + 1).update(from: name.utf8Start, count: size)
        place[size &+ 1] = UInt8(ascii: "\"")
        place[size &+ 2] = UInt8(ascii: ":")
        length = length &+ size &+ 3
        needsComma = false
    }

    /// Any key.
    public mutating func key(text name: some Collection<UInt8>) {
        string(name)
        makeRoom(1)
        put(UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func key(text name: String) {
        var name = name
        name.withUTF8 { key(text: $0) }
    }

    /// A value that `write` puts where it is told, and whose length it gives. Of the `room` bytes there all may be
    /// stored to; more are not.
    @inlinable
    @inline(__always)
    public mutating func value(room: Int, _ write: (UnsafeMutableRawPointer) -> Int) {
        beginItem(room)
        length = length &+ write(UnsafeMutableRawPointer(start + length))
        needsComma = true
    }

    /// A string of which nothing has to be escaped, put together in place; `room` bytes at most.
    @inlinable
    @inline(__always)
    public mutating func plainString(room: Int, _ put: (inout TextPlace) -> Void) {
        value(room: room + 2) { start in
            var place = TextPlace(start)
            place.put("\"")
            put(&place)
            place.put("\"")
            return place.count
        }
    }

    public mutating func string(_ text: String) {
        var text = text
        text.withUTF8 { string($0) }
    }

    /// UTF-8 as it is, but for what JSON wants escaped.
    public mutating func string(_ text: some Collection<UInt8>) {
        let done: Void? = text.withContiguousStorageIfAvailable { escaped($0) }
        if done == nil { Array(text).withUnsafeBufferPointer { escaped($0) } }
    }

    private mutating func escaped(_ text: UnsafeBufferPointer<UInt8>) {
        // The longest escape has six bytes.
        beginItem(text.count * 6 + 2)
        put(UInt8(ascii: "\""))
        if Self.isPlain(text) {
            put(text)
            put(UInt8(ascii: "\""))
            needsComma = true
            return
        }
        for byte in text {
            if byte >= 0x20, byte < 0x7f, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
                put(byte)
            } else {
                escape(byte)
            }
        }
        put(UInt8(ascii: "\""))
        needsComma = true
    }

    /// Whether all is printable ASCII that needs no escaping, as nearly always: eight bytes at once.
    private static func isPlain(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = UnsafeRawPointer(text.baseAddress), text.count >= 8 else {
            return text.allSatisfy { $0 >= 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        }
        let ones: UInt64 = 0x0101_0101_0101_0101
        var marks: UInt64 = 0
        func note(_ offset: Int) {
            let word = start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            // A byte's highest bit is set where the byte is zero; above the lowest that is, it may be set besides.
            func zeros(_ byte: UInt64) -> UInt64 {
                let difference = word ^ (ones &* byte)
                return (difference &- ones) & ~difference
            }
            let controls = (word &- ones &* 0x20) & ~word
            marks |= word | controls | zeros(0x22) | zeros(0x5c) | zeros(0x7f)
        }
        for offset in stride(from: 0, to: text.count - 8, by: 8) { note(offset) }
        note(text.count - 8)
        return marks & (ones &* 0x80) == 0
    }

    /// A literal that needs no escaping.
    public mutating func string(_ text: StaticString) {
        beginItem(text.utf8CodeUnitCount + 2)
        put(UInt8(ascii: "\""))
        put(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        put(UInt8(ascii: "\""))
        needsComma = true
    }

    /// ASCII that needs no escaping.
    public mutating func string<let length: Int>(ascii text: InlineArray<length, UInt8>) {
        beginItem(length + 2)
        let place = start + count
        place[0] = UInt8(ascii: "\"")
        text.span.withUnsafeBufferPointer {
            (place + 1).update(from: $0.baseAddress ?? UnsafePointer(place), count: length)
        }
        place[length + 1] = UInt8(ascii: "\"")
        self.length += length + 2
        needsComma = true
    }

    /// Bytes that need no escaping, such as base64url.
    public mutating func string(unescaped text: [UInt8]) {
        beginItem(text.count + 2)
        put(UInt8(ascii: "\""))
        text.withUnsafeBufferPointer { put($0) }
        put(UInt8(ascii: "\""))
        needsComma = true
    }

    /// Lends what was written so far, without a copy.
    public func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(start: start, count: count))
    }

    /// Lets `body` append the inside of a string that needs no escaping.
    public mutating func string(appending body: (inout [UInt8]) -> Void) {
        var text: [UInt8] = []
        body(&text)
        beginItem(text.count + 2)
        put(UInt8(ascii: "\""))
        text.withUnsafeBufferPointer { put($0) }
        put(UInt8(ascii: "\""))
        needsComma = true
    }

    public mutating func integer(_ value: some FixedWidthInteger) {
        beginItem(21)
        if value < 0 { put(UInt8(ascii: "-")) }
        put(magnitude: UInt64(truncatingIfNeeded: value.magnitude))
        needsComma = true
    }

    /// A number given in tenths: `84_210` is written `8421`, `88_075` is written `8807.5`.
    public mutating func tenths(_ value: Int32) {
        self.value(room: DecimalText.tenthsRoom) { DecimalText.writeTenths(value, to: $0) }
    }

    public mutating func bool(_ value: Bool) { literal(value ? "true" : "false") }
    public mutating func null() { literal("null") }

    /// JSON that is already written.
    public mutating func raw(_ json: some Collection<UInt8>) {
        beginItem(json.count)
        let done: Void? = json.withContiguousStorageIfAvailable { put($0) }
        if done == nil { for byte in json { put(byte) } }
        needsComma = true
    }

    /// A value that was read, written compactly: whole numbers as they were, others in their shortest form.
    ///
    /// It goes as deep as the parser let the value be.
    public mutating func value(_ value: JSONValue) {
        switch value.kind {
        case .object:
            beginObject()
            if var members = value.object {
                while let (key, member) = members.next() {
                    self.key(text: key)
                    self.value(member)
                }
            }
            endObject()
        case .array:
            beginArray()
            if var elements = value.array {
                while let element = elements.next() { self.value(element) }
            }
            endArray()
        case .string: if let text = value.text { string(text) }
        case .integer: if let number = value.integer { integer(number) }
        case .unsigned: if let number = value.unsigned { integer(number) }
        case .double: raw("\(value.double ?? 0)".utf8)
        case .true: bool(true)
        case .false: bool(false)
        case .null: null()
        }
    }

    /// The same for a value that may take so many bytes and no more: writing stops soon behind them, however long it is.
    ///
    /// - Returns: whether it was short enough; else what was written is no JSON.
    public mutating func value(_ value: JSONValue, atMost limit: Int) -> Bool {
        let start = count
        func isWithin(_ more: Int) -> Bool { count - start + more <= limit }
        guard isWithin(1) else { return false }
        if var members = value.object {
            beginObject()
            while let (key, member) = members.next() {
                guard isWithin(key.count + 4) else { return false }
                self.key(text: key)
                guard self.value(member, atMost: limit - (count - start)) else { return false }
            }
            endObject()
        } else if var elements = value.array {
            beginArray()
            while let element = elements.next() {
                guard self.value(element, atMost: limit - (count - start)) else { return false }
            }
            endArray()
        } else {
            if let text = value.text, !isWithin(text.count + 2) { return false }
            self.value(value)
        }
        return isWithin(0)
    }

    private mutating func literal(_ text: StaticString) {
        beginItem(text.utf8CodeUnitCount)
        put(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        needsComma = true
    }

    private mutating func open(_ bracket: UInt8) {
        beginItem(1)
        put(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        makeRoom(1)
        put(bracket)
        needsComma = true
    }

    /// Makes room for so many bytes and writes the comma before them, if one is due.
    @inlinable
    @inline(__always)
    mutating func beginItem(_ size: Int) {
        makeRoom(size + 1)
        if needsComma { put(UInt8(ascii: ",")) }
    }

    @inlinable
    @inline(__always)
    mutating func makeRoom(_ size: Int) {
        if capacity &- length < size { grow(by: size) }
    }

    @usableFromInline
    @inline(never)
    mutating func grow(by size: Int) {
        let larger = max(capacity * 2, count + size)
        let moved = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
        moved.update(from: start, count: count)
        start.deallocate()
        start = moved
        capacity = larger
    }

    /// Room must have been made.
    @inlinable
    @inline(__always)
    mutating func put(_ byte: UInt8) {
        start[length] = byte
        length = length &+ 1
    }

    @inline(__always)
    private mutating func put(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress else { return }
        (start + count).update(from: source, count: bytes.count)
        length += bytes.count
    }

    private mutating func put(magnitude: UInt64) {
        var digits = 1
        var limit: UInt64 = 10
        while digits < 20, magnitude >= limit {
            digits += 1
            limit = limit &* 10
            // 10^20 does not fit; twenty digits are the most there are.
            if digits == 20 { break }
        }
        var rest = magnitude
        var place = count + digits
        while place > count {
            place -= 1
            start[place] = 48 + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        length += digits
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            put(UInt8(ascii: "\\"))
            put(byte)
        case 0..<0x20, 0x7f:
            let digits: StaticString = "0123456789abcdef"
            put(UnsafeBufferPointer(start: ("\\u00" as StaticString).utf8Start, count: 4))
            put(digits.utf8Start[Int(byte >> 4)])
            put(digits.utf8Start[Int(byte & 15)])
        default: put(byte)
        }
    }
}
