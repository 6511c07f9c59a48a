import Glibc
import HTTPServer
import Testing

struct ConversationTests {
    @Test
    func `a connection serves one request after another`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            for number in 0..<50 {
                try client.send(post("/n", "\(number)"))
                let response = try client.read()
                #expect(response.status == 200 && response.text == "post /n||\(number)")
                #expect(!response.head.contains("Connection:"))
            }
            #expect(server.observer.answered.count == 50)
        }
    }

    @Test
    func `pipelined requests are answered in order, the next not handled before the last is answered`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            try client.send(post("/later", "1") + post("/later", "2") + post("/x", "3") + post("/inline", "4"))
            let first = try #require(server.handler.pending.next())
            // The loop has had a whole turn after the first request, and more bytes come in too.
            try client.send(post("/y", "5"))
            let turned = Inbox<Bool>()
            server.loop.post { turned.put(true) }
            _ = turned.next()
            #expect(server.handler.pending.count == 0)
            server.answer(first, "one")
            #expect(try client.read().text == "one")
            let second = try #require(server.handler.pending.next())
            #expect(second != first && !client.hasBytes())
            server.answer(first, "again")
            server.answer(second, "two")
            #expect(try client.read().text == "two")
            #expect(try client.read().text == "post /x||3")
            #expect(try client.read().text == "inline")
            #expect(try client.read().text == "post /y||5")
        }
    }

    @Test
    func `a thousand pipelined requests are all answered`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            var all = ""
            for number in 0..<1_000 { all += post("/p", "\(number)") }
            try client.send(all)
            for number in 0..<1_000 { #expect(try client.read().text == "post /p||\(number)") }
        }
    }

    @Test
    func `HTTP 1.0 closes unless it asks to stay, and HEAD has no body`() throws {
        try TestServer.run { server in
            let closing = try server.exchange("GET /a HTTP/1.0\r\n\r\n")
            #expect(closing.contains("Connection: close\r\n") && closing.hasSuffix("get /a||"))
            let client = try server.connect()
            try client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(try client.read().head.contains("Connection: keep-alive"))
            try client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n")
            let head = try client.read(isHead: true)
            #expect(head.head.contains("Content-Length: 9") && !client.hasBytes())
            try client.send("GET /empty HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n")
            let last = try client.readToEnd()
            #expect(last.hasPrefix("HTTP/1.1 204 No Content\r\n") && last.hasSuffix("Connection: close\r\n\r\n"))
            #expect(!last.contains("Content-Length"))
        }
    }

    @Test
    func `a header value can't add a header, and every answer has a date`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            try client.send(post("/split", ""))
            let head = try client.read().head
            #expect(head.contains("X-Value: a  X-Evil: b\r\n") && head.contains("Retry-After: 7\r\n"))
            #expect(head.contains("\r\nAllow: POST") && head.contains("\r\nDate: ") && head.contains(" GMT\r\n"))
        }
    }

    @Test
    func `100-continue is sent once, and not when the body is there already`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            let head = "POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n"
            try client.send(head)
            #expect(try client.read().head == "HTTP/1.1 100 Continue")
            try client.send("ab")
            try client.send("cd")
            #expect(try client.read().text == "post /e||abcd")
            try client.send(head + "efgh")
            #expect(try client.read().text == "post /e||efgh")
            #expect(
                try server.exchange(
                    "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n"
                )
                .hasPrefix("HTTP/1.1 413 ")
            )
        }
    }

    @Test
    func `gzip is unpacked, in one member or several, up to the limit`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            let encoding = "Content-Encoding: gzip\r\n"
            try client.send(post("/z", gzipped(Array("hello".utf8)), headers: encoding))
            #expect(try client.read().text == "post /z||hello")
            try client.send(post("/z", gzipped(Array("a".utf8)) + gzipped(Array("b".utf8)), headers: encoding))
            #expect(try client.read().text == "post /z||ab")
            let most = gzipped([UInt8](repeating: 32, count: 8 << 20))
            try client.send(post("/size", most, headers: encoding))
            #expect(try client.read().text == "\(8 << 20)")
            try client.send(post("/z", "plain", headers: "Content-Encoding: identity\r\n"))
            #expect(try client.read().text == "post /z||plain")
        }
    }

    @Test
    func `a compressed body is left alone where the handler needs none of it`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            let bomb = gzipped([UInt8](repeating: 0, count: 200 << 20))
            for body in [bomb, Array("no gzip".utf8)] {
                try client.send(post("/closed", body, headers: "Content-Encoding: gzip\r\n"))
                let refused = try client.read()
                #expect(refused.status == 401 && refused.text == "closed")
                try client.send(post("/unread", body, headers: "Content-Encoding: gzip\r\n"))
                #expect(try client.read().text == "post /unread||")
            }
            try client.send(post("/closed", "next"))
            #expect(try client.read().text == "post /closed||next")
            #expect(server.observer.refused.count == 0)
        }
    }

    @Test
    func `a gzip bomb, a cut and a damaged stream are refused, and the connection stays usable`() throws {
        try TestServer.run { server in
            let whole = gzipped(Array(String(repeating: "hello ", count: 2_000).utf8))
            var damaged = whole
            damaged[damaged.count - 6] ^= 0xff
            let cases: [([UInt8], String)] = [
                (gzipped([UInt8](repeating: 0, count: 8 << 20 + 1)), "413 decompressed_body_too_large"),
                (gzipped([UInt8](repeating: 0, count: 200 << 20)), "413 decompressed_body_too_large"),
                (Array(whole.dropLast(1)), "400 bad_gzip"), (Array(whole.prefix(9)), "400 bad_gzip"),
                (damaged, "400 bad_gzip"), (whole + [1, 2, 3], "400 bad_gzip"), ([], "400 bad_gzip"),
                (Array("plain".utf8), "400 bad_gzip"),
            ]
            let client = try server.connect()
            for (body, expected) in cases {
                try client.send(post("/z", body, headers: "Content-Encoding: gzip\r\n"))
                #expect(try client.read().head.hasPrefix("HTTP/1.1 \(expected.prefix(3)) "))
                #expect(server.observer.refused.next() == expected)
                try client.send(post("/z", "next"))
                #expect(try client.read().text == "post /z||next")
            }
        }
    }

    @Test
    func `a refused client that is still sending sees the answer`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            let body = [UInt8](repeating: 120, count: 3 << 20)
            try client.send(post("/", body))
            #expect(try client.readToEnd().hasPrefix("HTTP/1.1 413 "))
        }
    }

    @Test
    func `a body of the whole limit arrives`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            try client.send(post("/size", [UInt8](repeating: 120, count: 1 << 20)) + Array(post("/x", "next").utf8))
            #expect(try client.read().text == "\(1 << 20)")
            #expect(try client.read().text == "post /x||next")
        }
    }

    @Test
    func `a large answer reaches a slow reader, and what it pipelined is answered after it`() throws {
        try TestServer.run { server in
            let client = try TestClient(port: server.port, receiveBuffer: 4_096)
            try client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n" + post("/after", "x"))
            _ = server.handler.handled.next()
            let turned = Inbox<Bool>()
            server.loop.post { turned.put(true) }
            _ = turned.next()
            #expect(server.handler.handled.count == 0)
            let big = try client.read()
            #expect(big.body.count == TestHandler.bigSize && big.body.allSatisfy { $0 == 120 })
            #expect(try client.read().text == "post /after||x")
        }
    }

    @Test
    func `the problem document escapes its texts and carries further members`() {
        let problem = HTTPProblem(
            status: 422,
            code: "bad_items",
            title: "a \"quoted\"\n\\ title",
            detail: "d",
            members: Array(#""errors":[]"#.utf8)
        )
        #expect(
            String(decoding: problem.body, as: UTF8.self)
                == #"{"type":"urn:daybook:problem:bad_items","title":"a \"quoted\"\u000a\\ title","status":422,"code":"bad_items","detail":"d","errors":[]}"#
        )
    }
}
