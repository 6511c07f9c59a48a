import HTTPServer
import Testing

struct FramingTests {
    struct Refused: Sendable, CustomTestStringConvertible {
        let name: String
        let bytes: String
        let expected: String
        var testDescription: String { name }
    }

    static let refusals: [Refused] = [
        Refused(
            name: "two lengths",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "two lengths that differ",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "two lengths in one header",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\na",
            expected: "400 "
        ),
        Refused(
            name: "a blank before the first header",
            bytes: "GET / HTTP/1.1\r\n Host: h\r\n\r\n",
            expected: "400 "
        ),
        Refused(
            name: "a bare line feed behind a chunk's size",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
            expected: "400 "
        ),
        Refused(
            name: "a bare line feed behind a chunk",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n",
            expected: "400 "
        ),
        Refused(
            name: "a chunk longer than its size",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            expected: "400 "
        ),
        Refused(
            name: "a chunk size with a prefix",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
            expected: "400 "
        ),
        Refused(
            name: "a signed chunk size",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
            expected: "400 "
        ),
        Refused(
            name: "a chunk size that no integer holds",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n",
            expected: "4"
        ),
        Refused(
            name: "length and chunks",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "chunks and length",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "foo, chunked",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: foo, chunked\r\n\r\n0\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "chunked, foo",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, foo\r\n\r\n0\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "unknown transfer encoding",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "chunked twice",
            bytes:
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "chunks in HTTP/1.0",
            bytes: "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "space before the colon",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 1\r\n\r\na",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "signed length",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +2\r\n\r\naa",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "hexadecimal length",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x2\r\n\r\naa",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "huge length",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "bad chunk size",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            expected: "400 bad_framing"
        ),
        Refused(
            name: "a bare line feed as the empty line",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\n\n",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "a bare line feed as the empty line, and more behind it",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\n\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "a bare line feed behind the last chunk",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\n",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "a bare line feed behind trailers",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: r\r\n\n",
            expected: "400 malformed_request"
        ),
        Refused(name: "bare line feeds", bytes: "GET / HTTP/1.1\nHost: h\n\n", expected: "400 "),
        Refused(
            name: "bare carriage return",
            bytes: "GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "NUL in a value",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "bad header name",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\nX(y): a\r\n\r\n",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "folded header",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
            expected: "400 folded_header"
        ),
        Refused(
            name: "folded empty header",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\nX:\r\n\tb\r\n\r\n",
            expected: "400 folded_header"
        ),
        Refused(name: "folded last header", bytes: "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n \r\n\r\n", expected: "400 "),
        Refused(name: "no Host", bytes: "GET / HTTP/1.1\r\n\r\n", expected: "400 host_header"),
        Refused(name: "two Hosts", bytes: "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", expected: "400 host_header"),
        Refused(name: "HTTP/0.9", bytes: "GET /\r\n\r\n", expected: "400 http_version"),
        Refused(name: "HTTP/9.9", bytes: "GET / HTTP/9.9\r\nHost: h\r\n\r\n", expected: "400 malformed_request"),
        Refused(name: "HTTP/2.0", bytes: "GET / HTTP/2.0\r\nHost: h\r\n\r\n", expected: "400 http_version"),
        Refused(name: "HTTP/2 preface", bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", expected: "400 "),
        Refused(
            name: "RTSP",
            bytes: "POST / RTSP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
            expected: "400 http_version"
        ),
        Refused(
            name: "a TLS hello",
            bytes: "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}",
            expected: "400 malformed_request"
        ),
        Refused(
            name: "two authorizations",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nauthorization: b\r\n\r\n",
            expected: "400 repeated_header"
        ),
        Refused(name: "a fragment", bytes: "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", expected: "400 bad_target"),
        Refused(
            name: "an authority without a path",
            bytes: "GET http://h HTTP/1.1\r\nHost: h\r\n\r\n",
            expected: "400 bad_target"
        ),
        Refused(
            name: "CONNECT",
            bytes: "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
            expected: "501 method_not_implemented"
        ),
        Refused(name: "no length", bytes: "POST / HTTP/1.1\r\nHost: h\r\n\r\n", expected: "411 length_required"),
        Refused(
            name: "body over the limit",
            bytes: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n",
            expected: "413 body_too_large"
        ),
        Refused(
            name: "another encoding, of a body that waits for leave",
            bytes:
                "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: br\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
            expected: "415 content_encoding"
        ),
        Refused(
            name: "another expectation",
            bytes: post("/", "x", headers: "Expect: magic\r\n"),
            expected: "417 expectation"
        ),
        Refused(
            name: "too many headers",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\n" + String(repeating: "X: y\r\n", count: 64) + "\r\n",
            expected: "431 headers_too_large"
        ),
        Refused(
            name: "a header too long",
            bytes: "GET / HTTP/1.1\r\nHost: h\r\nX: " + String(repeating: "y", count: 17_000) + "\r\n\r\n",
            expected: "431 headers_too_large"
        ),
        Refused(
            name: "a target too long",
            bytes: "GET /" + String(repeating: "y", count: 5_000) + " HTTP/1.1\r\nHost: h\r\n\r\n",
            expected: "414 target_too_long"
        ),
    ]

    @Test(arguments: refusals)
    func
        `a request that could be read in two ways, or asks too much, is refused as a problem and the connection closed`(
            _ refusal: Refused
        ) throws
    {
        try TestServer.run { server in
            let answer = try server.exchange(refusal.bytes)
            let counted = try #require(server.observer.refused.next())
            #expect(counted.hasPrefix(refusal.expected))
            #expect(answer.hasPrefix("HTTP/1.1 \(refusal.expected.prefix(4))"))
            #expect(answer.contains("Content-Type: application/problem+json\r\n"))
            #expect(answer.contains("Connection: close\r\n"))
            #expect(answer.contains("\"code\":\"\(counted.dropFirst(4))\""))
            #expect(server.handler.handled.count == 0)
        }
    }

    @Test
    func `a refused request is refused the same way when it comes byte by byte`() throws {
        try TestServer.run { server in
            for refusal in Self.refusals where refusal.bytes.utf8.count < 200 {
                let client = try server.connect()
                for byte in refusal.bytes.utf8 {
                    // The server may have closed before the last byte.
                    guard (try? client.send([byte])) != nil else { break }
                }
                let counted = try #require(server.observer.refused.next(), "\(refusal.name)")
                #expect(counted.hasPrefix(refusal.expected), "\(refusal.name)")
            }
            #expect(server.handler.handled.count == 0)
        }
    }

    @Test
    func `a request split at any byte is read the same`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            let plain = post("/a/b?c=d", "hello", headers: "Empty:\r\nX-Time-Zone:  Europe/Athens \r\n")
            let chunked =
                "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: r\r\n\r\n"
            for (request, expected) in [(plain, "post /a/b|c=d|hello"), (chunked, "put /c||hello")] {
                let bytes = Array(request.utf8)
                for split in 1..<bytes.count {
                    try client.send(Array(bytes[..<split]))
                    try client.send(Array(bytes[split...]))
                    #expect(try client.read().text == expected)
                }
                for byte in bytes { try client.send([byte]) }
                #expect(try client.read().text == expected)
            }
        }
    }

    @Test
    func `known headers are found in any case, and others by name`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            try client.send(
                "GET /headers HTTP/1.1\r\nhOST: h\r\nAUTHORIZATION: Bearer x\r\nContent-type:application/json\t\r\n"
                    + "X-TIME-ZONE: UTC\r\nTraceparent: 00-1\r\nX-Other:\r\n\r\n"
            )
            let text = try client.read().text
            for part in ["host=h;", "authorization=Bearer x;", "contentType=application/json;", "timeZone=UTC;"] {
                #expect(text.contains(part))
            }
            #expect(text.contains("traceparent=00-1;") && text.contains("other=;"))
        }
    }

    @Test
    func `an absolute target is read as its path, and an upgrade is ignored`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            try client.send("GET HTTP://h:1/a?b HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try client.read().text == "get /a|b|")
            try client.send("GET /u HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
            #expect(try client.read().text == "get /u||")
            try client.send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try client.read().text == "options *||")
            try client.send("\r\n\r\nTRACE /t HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try client.read().text == "other /t||")
        }
    }

    @Test
    func `an encoding that nobody reads costs a request, not its connection, if the body's end is known`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            let chunked = "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n"
            for request in [
                post("/", "some bytes", headers: "Content-Encoding: br\r\n"), chunked + "3\r\nabc\r\n0\r\n\r\n",
            ] {
                try client.send(request + post("/next", "x"))
                let answer = try client.read()
                #expect(answer.status == 415 && answer.text.contains("\"code\":\"content_encoding\""))
                #expect(!answer.head.contains("Connection: close"))
                #expect(server.observer.refused.next() == "415 content_encoding")
                #expect(try client.read().text == "post /next||x")
            }
            // Longer than may be read, it closes as ever.
            let large = "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: br\r\nContent-Length: 1048577\r\n\r\n"
            #expect(try server.exchange(large).hasPrefix("HTTP/1.1 413 "))
            #expect(server.handler.handled.count == 2)
        }
    }

    @Test
    func `chunks are limited by their sum and by their framing`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.maximumBodyBytes = 1_000
        try TestServer.run(configuration) { server in
            let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            let floods = [
                String(repeating: "64\r\n" + String(repeating: "x", count: 100) + "\r\n", count: 11),
                String(repeating: "1\r\nx\r\n", count: 300),
                "1;" + String(repeating: "e", count: 2_000),
                "0\r\n" + String(repeating: "T: r\r\n", count: 300),
            ]
            for flood in floods {
                let answer = try server.exchange(head + flood)
                #expect(answer.hasPrefix("HTTP/1.1 413 "))
            }
        }
    }
}
