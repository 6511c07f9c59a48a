import Authentication
import JSON

/// Where a record went.
public struct RecordPosition: Hashable, Sendable {
    public var topic: String
    public var partition: Int32
    public var offset: Int64

    public init(topic: String, partition: Int32, offset: Int64) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
    }

    /// The most bytes that `write` needs: two numbers with their signs and what stands between the parts.
    fileprivate var textLimit: Int { topic.utf8.count + 40 }

    /// Writes `topic/partition/offset`, and gives its length; `textLimit` bytes are there.
    fileprivate func write(to place: UnsafeMutableRawPointer) -> Int {
        var topic = topic
        var count = topic.withUTF8 { bytes in
            if let source = bytes.baseAddress { place.copyMemory(from: source, byteCount: bytes.count) }
            return bytes.count
        }
        place.storeBytes(of: UInt8(ascii: "/"), toByteOffset: count, as: UInt8.self)
        count += 1
        count += Self.write(Int64(partition), to: place + count)
        place.storeBytes(of: UInt8(ascii: "/"), toByteOffset: count, as: UInt8.self)
        count += 1
        return count + Self.write(offset, to: place + count)
    }

    /// In decimal: at most twenty bytes.
    private static func write(_ number: Int64, to place: UnsafeMutableRawPointer) -> Int {
        var start = 0
        if number < 0 {
            place.storeBytes(of: UInt8(ascii: "-"), as: UInt8.self)
            start = 1
        }
        var digits = 1
        var rest = number.magnitude / 10
        while rest > 0 {
            rest /= 10
            digits += 1
        }
        rest = number.magnitude
        for offset in stride(from: start + digits - 1, through: start, by: -1) {
            place.storeBytes(of: 48 + UInt8(truncatingIfNeeded: rest % 10), toByteOffset: offset, as: UInt8.self)
            rest /= 10
        }
        return start + digits
    }
}

/// Where the records of one request went: one as a rule, which needs no memory of its own.
public struct RecordPositions: Hashable, Sendable, ExpressibleByArrayLiteral {
    /// Of no meaning while there is none: an optional would be copied for each look at it.
    private var first = RecordPosition(topic: "", partition: 0, offset: 0)
    private var isEmpty = true
    private var others: [RecordPosition] = []

    public init() {}

    public init(arrayLiteral elements: RecordPosition...) {
        for position in elements { append(position) }
    }

    mutating func append(_ position: RecordPosition) {
        guard isEmpty else { return others.append(position) }
        first = position
        isEmpty = false
    }

    /// Bytes of all positions' text at most.
    private var textLimit: Int {
        guard !others.isEmpty else { return first.textLimit }
        return others.reduce(first.textLimit) { $0 + 1 + $1.textLimit }
    }

    /// The most bytes that `writeToken` stores.
    var tokenRoom: Int { Base64URL.length(of: textLimit) }

    /// Writes the token, opaque to clients, and gives its length: base64url of all positions, separated by commas. There
    /// are `tokenRoom` bytes.
    func writeToken(to place: UnsafeMutableRawPointer) -> Int {
        guard !isEmpty else { return 0 }
        return withUnsafeTemporaryAllocation(byteCount: textLimit, alignment: 1) { text in
            // Never: it has `textLimit` bytes, and each position keeps to its part.
            guard let start = text.baseAddress else { return 0 }
            var count = first.write(to: start)
            for position in others {
                start.storeBytes(of: UInt8(ascii: ","), toByteOffset: count, as: UInt8.self)
                count += 1 + position.write(to: start + count + 1)
            }
            return Base64URL.encode(UnsafeRawBufferPointer(start: start, count: count), to: place)
        }
    }

    /// The token as a JSON string.
    func writeToken(into writer: inout JSONWriter) {
        writer.plainString(room: tokenRoom) { place in place.put { writeToken(to: $0) } }
    }
}
