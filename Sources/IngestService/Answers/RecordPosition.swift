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
        for (number, position) in positions.enumerated() {
            if number > 0 { text.append(UInt8(ascii: ",")) }
            text.append(contentsOf: "\(position.topic)/\(position.partition)/\(position.offset)".utf8)
        }
        return Base64URL.encode(text)
    }
}
