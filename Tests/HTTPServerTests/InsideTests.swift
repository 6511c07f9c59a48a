import Glibc
import Testing

@testable import HTTPServer

struct InsideTests {
    /// SplitMix64: the same cases in every run.
    struct Generator: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var word = state
            word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
            word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
            return word ^ word >> 31
        }
    }

    static let seeds = [
        post("/a/b?c=d", "hello", headers: "Authorization: Bearer x\r\nEmpty:\r\nX-Time-Zone: UTC\r\n"),
        "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: r\r\n\r\n",
        "GET http://h/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        post("/z", "x", headers: "Content-Encoding: gzip\r\n"),
    ].map { Array($0.utf8) }

    /// Feeds the bytes in pieces and touches all that a handler could touch; gives back how many requests came out.
    private func feed(_ bytes: [UInt8], _ random: inout Generator, _ connection: Connection, _ pool: BlockPool) -> Int {
        var (rest, requests) = (bytes[...], 0)
        connection.input.release(to: pool)
        connection.beginMessage()
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1...rest.count, using: &random))
            rest = rest.dropFirst(piece.count)
            guard connection.input.append(Array(piece), from: pool) else { return requests }
            while let outcome = connection.parse() {
                if case .refused = outcome { return requests }
                guard case .complete = outcome, let message = connection.input.message else { break }
                let head = connection.parser.head.pointee
                let body = UnsafeRawBufferPointer(start: message + head.bodyStart, count: head.bodyLength)
                let request = HTTPRequest(base: message, parser: connection.parser, body: body)
                var sum = request.path.count + request.query.count
                for index in 0..<request.headerCount {
                    if let (name, value) = request.header(at: index) {
                        sum += name.count + value.reduce(0) { $0 + Int($1) }
                    }
                }
                for known in HTTPKnownHeader.allCases { sum += request.header(known)?.count ?? 0 }
                sum += request.body.reduce(0) { $0 + Int($1) }
                #expect(sum > 0 && request.path.count > 0)
                requests += 1
                connection.input.drop(to: pool)
                connection.beginMessage()
            }
        }
        return requests
    }

    @Test
    func `damaged requests, split anywhere, never trap nor read outside`() throws {
        let limits = Limits(HTTPServerConfiguration())
        let pool = BlockPool(limit: limits.bufferedBytes)
        let connection = try #require(Connection(slot: 0, limits: limits))
        var random = Generator(state: 4)
        var whole = 0
        for round in 0..<20_000 {
            var bytes = Self.seeds[round % Self.seeds.count]
            if round % 3 == 0 { bytes += Self.seeds[Int.random(in: 0..<Self.seeds.count, using: &random)] }
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert("\r\n :\t;,0\0".utf8.randomElement(using: &random) ?? 0, at: place)
                case 2: if bytes.count > 1 { bytes.remove(at: place) }
                default: bytes.insert(contentsOf: bytes[..<place].suffix(20), at: place)
                }
            }
            whole += feed(bytes, &random, connection, pool)
        }
        connection.input.release(to: pool)
        #expect(whole > 4_000)
    }

    @Test
    func `the pieces of a stream of whole requests do not change what is read`() throws {
        let limits = Limits(HTTPServerConfiguration())
        let pool = BlockPool(limit: limits.bufferedBytes)
        let connection = try #require(Connection(slot: 0, limits: limits))
        var random = Generator(state: 7)
        for _ in 0..<300 {
            let count = feed(Self.seeds.flatMap { $0 } + Self.seeds[1], &random, connection, pool)
            #expect(count == Self.seeds.count + 1)
        }
        connection.input.release(to: pool)
    }

    @Test
    func `a request can be made from its bytes for a handler's test`() {
        let bytes = post("/v1/days?strict=true", gzipped(Array("{}".utf8)), headers: "Content-Encoding: gzip\r\n")
        let seen = HTTPRequest.withRequest(parsing: bytes) { request in
            "\(request.method) \(String(decoding: request.path, as: UTF8.self)) \(String(decoding: request.body, as: UTF8.self))"
        }
        #expect(seen == "post /v1/days {}")
        #expect(HTTPRequest.withRequest(parsing: Array("GET / HTTP/1.1\r\n\r\n".utf8)) { _ in true } == nil)
    }

    @Test
    func `memory for arriving requests is bounded over all connections`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.maximumBufferedBytes = 2 << 20
        try TestServer.run(configuration) { server in
            let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"
            // Two have room; whichever is read last is refused.
            let clients = try (0..<3).map { _ in try server.connect() }
            for client in clients { try client.send(head + String(repeating: "x", count: 900_000)) }
            #expect(server.observer.refused.next() == "503 too_much_arriving")
            let small = try server.connect()
            try small.send(post("/x", "y"))
            #expect(try small.read().status == 200 && clients.count == 3)
        }
    }

    @Test(arguments: [true, false])
    func `memory is lent for bytes that came, and a large body is moved only a few times`(isChunked: Bool) throws {
        let limits = Limits(HTTPServerConfiguration())
        let pool = BlockPool(limit: 4 << 20)
        let framing = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000000"
        let head = Array("POST / HTTP/1.1\r\nHost: h\r\n\(framing)\r\n\r\n".utf8)
        let piece: [UInt8] = Array(isChunked ? "f8\r\n".utf8 : "".utf8) + [UInt8](repeating: 120, count: 248)
        var waiting: [Connection] = []
        for slot in 0..<100 {
            let connection = try #require(Connection(slot: slot, limits: limits))
            let hasRoom = connection.input.append(head, from: pool)
            let outcome = connection.parse()
            let hasMore = connection.input.reserve(connection.wantedRoom, from: pool)
            #expect(hasRoom && hasMore && outcome != nil)
            waiting.append(connection)
        }
        let connection = waiting[0]
        var moves = 0
        for _ in 0..<4_000 {
            let block = connection.input.block
            let hasRoom = connection.input.reserve(connection.wantedRoom, from: pool)
            if connection.input.block != block { moves += 1 }
            let isTaken = connection.input.append(piece + Array(isChunked ? "\r\n".utf8 : "".utf8), from: pool)
            #expect(hasRoom && isTaken)
            guard case .incomplete = connection.parse() else { break }
        }
        #expect(connection.parser.head.pointee.bodyLength > 900_000 && moves <= 10, "\(moves)")
        for connection in waiting { connection.input.release(to: pool) }
    }

    @Test
    func `without free descriptors accepting rests for a moment instead of spinning`() throws {
        try TestServer.run { server in
            let (loop, calls, ready) = (server.loop, Inbox<Bool>(), Inbox<Bool>())
            loop.post {
                loop.acceptClient = { listener in
                    calls.put(true)
                    guard calls.count <= 2 else { return Socket.accept(listener) }
                    errno = EMFILE
                    return -1
                }
                ready.put(true)
            }
            _ = ready.next()
            let client = try server.connect()
            try client.send(post("/x", "y"))
            #expect(try client.read().status == 200)
            #expect(server.observer.paused.next() == EMFILE && server.observer.paused.next() == EMFILE)
            // Two failures, the client, and the look whether there are more.
            #expect(calls.count <= 4)
        }
    }

    @Test
    func `an answer begins as its own status and type ask, whichever came before it`() {
        let writer = ResponseWriter()
        func written(_ status: Int, _ type: HTTPContentType, _ body: String) -> String {
            let bytes = Array(body.utf8)
            bytes.withUnsafeBytes {
                writer.write(
                    status: status,
                    contentType: type,
                    headers: [],
                    body: $0,
                    isHead: false,
                    persistence: .keepAlive
                )
            }
            let text = UnsafeRawBufferPointer(start: writer.start, count: writer.count)
            // Whatever the time is.
            return String(decoding: text, as: UTF8.self)
                .replacing(/Date: [^\r]*\r\n/, with: "")
        }
        let long = String(repeating: "a", count: 300_000)
        let answers: [(Int, HTTPContentType, String)] = [
            (202, .json, "{}"), (202, .json, "[]"), (503, .problem, "{1}"), (503, .json, "{}"), (202, .json, ""),
            (204, .json, ""), (204, .json, ""), (202, .json, long), (202, .json, "{}"), (599, .text, "x"),
        ]
        for (index, (status, type, body)) in answers.enumerated() {
            let line = statusLine(status)?.description ?? "HTTP/1.1 \(status) \r\n"
            let length = "Content-Type: \(type.text)\r\nContent-Length: \(body.utf8.count)\r\n"
            let expected = line + (status == 204 ? "" : length) + "\r\n" + body
            #expect(written(status, type, body) == expected)
            #expect(written(status, type, body) == expected)
            // Where something was thrown away, nothing of an answer is left.
            if index % 2 == 1 { writer.scratch().initializeMemory(as: UInt8.self, repeating: 0x78) }
        }
    }

    @Test
    func `the date is written as RFC 9110 asks`() {
        #expect(DateLine.format(second: 784_111_777) == Array("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".utf8))
    }
}
