/// The messages of PostgreSQL's protocol that a client sends, cut out of the stream.
struct FrontendMessages {
    struct Message {
        fileprivate(set) var bytes: [UInt8]
        fileprivate let isStartup: Bool

        var isSync: Bool { !isStartup && bytes.first == UInt8(ascii: "S") }

        /// A statement (parsed, or a simple query) that says COMMIT.
        var isCommit: Bool { commitStart != nil }

        var isBegin: Bool { start(of: "BEGIN\0") != nil }

        /// COMMIT or ROLLBACK.
        var isEnd: Bool { isCommit || start(of: "ROLLBACK\0") != nil || start(of: "ABORT \0") != nil }

        private var commitStart: Int? { start(of: "COMMIT\0") }

        /// Where a statement says this at its end.
        private func start(of text: String) -> Int? {
            guard !isStartup, bytes.first == UInt8(ascii: "P") || bytes.first == UInt8(ascii: "Q") else { return nil }
            return bytes.firstRange(of: Array(text.utf8))?.lowerBound
        }

        /// ABORT is another word for ROLLBACK, and fits into the place of COMMIT.
        mutating func rollBackInstead() {
            guard let start = commitStart else { return }
            for (offset, byte) in "ABORT ".utf8.enumerated() { bytes[start + offset] = byte }
        }
    }

    private var buffer: [UInt8] = []
    private var isStarted = false

    mutating func append(_ bytes: ArraySlice<UInt8>) { buffer += bytes }

    /// The next whole message. The first one has no type.
    mutating func next() -> Message? {
        let header = isStarted ? 1 : 0
        guard buffer.count >= header + 4 else { return nil }
        var length = 0
        for byte in buffer[header..<(header + 4)] { length = length << 8 | Int(byte) }
        guard length >= 4, buffer.count >= header + length else { return nil }
        let bytes = Array(buffer[..<(header + length)])
        buffer.removeFirst(header + length)
        defer { isStarted = true }
        return Message(bytes: bytes, isStartup: !isStarted)
    }
}
