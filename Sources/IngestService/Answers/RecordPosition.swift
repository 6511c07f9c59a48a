import Authentication

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

    /// Opaque to clients: base64url of `topic/partition/offset`, separated by commas.
    public static func token(_ positions: [RecordPosition]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(positions.count * 64)
        for (number, position) in positions.enumerated() {
            if number > 0 { text.append(UInt8(ascii: ",")) }
            text.append(contentsOf: position.topic.utf8)
            text.append(UInt8(ascii: "/"))
            append(Int64(position.partition), to: &text)
            text.append(UInt8(ascii: "/"))
            append(position.offset, to: &text)
        }
        return Base64URL.encode(text)
    }

    /// In decimal.
    private static func append(_ number: Int64, to text: inout [UInt8]) {
        if number < 0 { text.append(UInt8(ascii: "-")) }
        var digits = InlineArray<20, UInt8>(repeating: 0)
        var rest = number.magnitude
        var place = 20
        repeat {
            place -= 1
            digits[place] = 48 + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest > 0
        for index in place..<20 { text.append(digits[index]) }
    }
}
