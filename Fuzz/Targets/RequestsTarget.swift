@testable import HTTPServer

/// What a client sends on one connection, in pieces: the first line's bytes are their sizes, over and over, and without
/// any it is cut at every byte. What comes out is what comes out of the whole: the same requests, then the same refusal.
final class RequestsTarget: FuzzTarget {
    private let pool: BlockPool
    private let connection: Connection

    init() throws {
        let limits = Limits(HTTPServerConfiguration())
        pool = BlockPool(limit: limits.bufferedBytes)
        guard let connection = Connection(slot: 0, limits: limits) else {
            throw FuzzFinding(description: "the target has no connection")
        }
        self.connection = connection
    }

    deinit { connection.input.release(to: pool) }

    /// One request as a handler sees it.
    private struct Seen: Equatable {
        var method: HTTPMethod
        var path: [UInt8]
        var query: [UInt8]
        var body: [UInt8]
        var headers: [[UInt8]]
        var known: [[UInt8]?]
        var flags: [Bool]
        var declined: Refusal?
    }

    private struct Conversation: Equatable {
        var requests: [Seen] = []
        var refusal: Refusal?
        /// Bytes of a body that came without their end.
        var unfinishedBody = 0
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        var stream = input
        guard let sizes = stream.takeLine() else { return }
        let whole = try read(stream, in: [stream.count])
        let pieces = try read(stream, in: sizes.isEmpty ? [1] : sizes.map { Int($0) + 1 })
        try check(whole.requests == pieces.requests, "pieces make other requests of the same bytes")
        try check(
            whole.refusal == pieces.refusal || Self.areTwoReasons(whole.refusal, pieces.refusal),
            "the whole is refused as \(whole.refusal.map { "\($0)" } ?? "nothing"), and pieces as "
                + (pieces.refusal.map { "\($0)" } ?? "nothing")
        )
        try check(whole.unfinishedBody == pieces.unfinishedBody, "pieces make another unfinished body")
    }

    /// What is too long and broken behind is told as either: a limit is seen when its bytes come, the rest when it ends.
    private static func areTwoReasons(_ one: Refusal?, _ other: Refusal?) -> Bool {
        guard let one, let other else { return false }
        let limits: [Refusal] = [.headTooLarge, .targetTooLong, .bodyTooLarge]
        return limits.contains(one) || limits.contains(other)
    }

    /// Feeds the stream in pieces of these sizes, as reads from a socket would.
    private func read(_ stream: UnsafeRawBufferPointer, in sizes: [Int]) throws -> Conversation {
        var conversation = Conversation()
        connection.input.release(to: pool)
        connection.beginMessage()
        var (position, turn) = (0, 0)
        while position < stream.count {
            let end = min(stream.count, position + sizes[turn % sizes.count])
            turn += 1
            guard connection.input.reserve(end - position, from: pool) else {
                throw FuzzFinding(description: "there was no memory for a few bytes")
            }
            connection.input.free.copyBytes(from: stream[position..<end])
            connection.input.didRead(end - position)
            position = end
            while let outcome = connection.parse() {
                if case .refused(let refusal) = outcome {
                    conversation.refusal = refusal
                    return conversation
                }
                guard case .complete = outcome else { break }
                conversation.requests.append(try seen())
                connection.input.drop(to: pool)
                connection.beginMessage()
            }
        }
        if connection.hasMessageBytes() { conversation.unfinishedBody = connection.parser.head.pointee.bodyLength }
        return conversation
    }

    private func seen() throws -> Seen {
        guard let message = connection.input.message else {
            throw FuzzFinding(description: "a whole request has no bytes")
        }
        let head = connection.parser.head.pointee
        let body = UnsafeRawBufferPointer(start: message + head.bodyStart, count: head.bodyLength)
        let request = HTTPRequest(base: message, parser: connection.parser, body: body)
        try check(request.path.count > 0, "a path is empty")
        return Seen(
            method: request.method,
            path: Array(request.path),
            query: Array(request.query),
            body: Array(request.body),
            headers: (0..<request.headerCount).flatMap { index in
                request.header(at: index).map { [Array($0.name), Array($0.value)] } ?? []
            },
            known: HTTPKnownHeader.allCases.map { known in request.header(known).map { Array($0) } },
            flags: [head.isHTTP10, head.keepsAlive, head.isChunked, head.isGzip, head.wantsContinue],
            declined: head.declined
        )
    }
}
