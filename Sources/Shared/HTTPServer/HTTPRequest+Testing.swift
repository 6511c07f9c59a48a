extension HTTPRequest {
    /// Reads one whole request from its bytes, as a connection would, and hands it over: for testing a handler without
    /// a socket. Nil if the bytes are refused, or are not exactly one request.
    public static func withRequest<Result>(
        parsing bytes: [UInt8],
        configuration: HTTPServerConfiguration = HTTPServerConfiguration(),
        _ body: (borrowing HTTPRequest) throws -> Result
    ) rethrows -> Result? {
        let limits = Limits(configuration)
        let pool = BlockPool(limit: limits.bufferedBytes)
        guard let connection = Connection(slot: 0, limits: limits) else { return nil }
        defer { connection.input.release(to: pool) }
        guard connection.input.append(bytes, from: pool), case .complete = connection.parse() else { return nil }
        guard connection.input.unparsedBytes == 0, let message = connection.input.message else { return nil }
        let head = connection.parser.head
        var content = UnsafeRawBufferPointer(start: message + head.pointee.bodyStart, count: head.pointee.bodyLength)
        let gzip = GzipDecoder(limit: limits.decompressedBytes)
        if head.pointee.isGzip {
            guard case .body(let plain) = gzip.decode(content) else { return nil }
            content = plain
        }
        return try withExtendedLifetime((connection, gzip)) {
            try body(HTTPRequest(base: UnsafeRawPointer(message), parser: connection.parser, body: content))
        }
    }
}

extension InputBuffer {
    /// Puts bytes behind those that are there, as if they had been read. False: no memory.
    mutating func append(_ bytes: [UInt8], from pool: BlockPool) -> Bool {
        guard reserve(bytes.count, from: pool) else { return false }
        free.copyBytes(from: bytes)
        didRead(bytes.count)
        return true
    }
}
