import Glibc
import HTTPServer
import Testing

struct LifetimeTests {
    @Test
    func `a client that leaves while its answer is awaited is noticed, and a late answer goes nowhere`() throws {
        try TestServer.run { server in
            var client: TestClient? = try server.connect()
            try client?.send(post("/later", "x"))
            let exchange = try #require(server.handler.pending.next())
            client = nil
            #expect(server.handler.abandoned.next() == exchange)
            let next = try server.connect()
            try next.send(post("/later", "y"))
            let second = try #require(server.handler.pending.next())
            server.answer(exchange, "wrong")
            server.answer(second, "right")
            #expect(try next.read().text == "right")
        }
    }

    @Test
    func `a client that resets the connection is noticed too`() throws {
        try TestServer.run { server in
            var client: TestClient? = try server.connect()
            try client?.send(post("/later", "x") + post("/more", "y"))
            let exchange = try #require(server.handler.pending.next())
            client?.reset()
            client = nil
            #expect(server.handler.abandoned.next() == exchange)
        }
    }

    @Test
    func `an answer that never comes is replaced by 503 when its time is over`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.answerTimeout = .milliseconds(80)
        try TestServer.run(configuration) { server in
            let client = try server.connect()
            for path in ["/soon", "/later"] {
                try client.send(post(path, "x"))
                let response = try client.read()
                #expect(response.status == 503 && response.head.contains("Retry-After: 5"))
                #expect(response.text.contains("safe to send again"))
            }
            server.answer(server.handler.pending.next(), "late")
            try client.send(post("/x", "still here"))
            #expect(try client.read().text == "post /x||still here")
        }
    }

    @Test
    func `a request that drips is ended by the total time, a silent client without a word`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.requestTimeout = .milliseconds(150)
        try TestServer.run(configuration) { server in
            let silent = try server.connect()
            let dripping = try server.connect()
            let request = Array(post("/x", String(repeating: "x", count: 5_000)).utf8)
            var position = 0
            // One byte at a time, faster than any time-out between two bytes would notice.
            while server.observer.refused.count == 0, position < request.count {
                try dripping.send([request[position]])
                position += 1
                usleep(1_000)
            }
            #expect(try dripping.readToEnd().hasPrefix("HTTP/1.1 408 "))
            #expect(server.observer.refused.next() == "408 request_timeout")
            #expect(try silent.readToEnd().isEmpty)
            #expect(server.handler.handled.count == 0)
        }
    }

    @Test
    func `a line end behind a request does not begin the next one's time`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.requestTimeout = .milliseconds(100)
        try TestServer.run(configuration) { server in
            let together = try server.connect()
            try together.send(post("/x", "y") + "\r\n")
            #expect(try together.read().status == 200)
            let apart = try server.connect()
            try apart.send(post("/x", "y"))
            #expect(try apart.read().status == 200)
            try apart.send("\r\n")
            #expect(server.observer.closed.next(seconds: 0.4) == nil)
            for client in [together, apart] {
                try client.send(post("/x", "z"))
                #expect(try client.read().text == "post /x||z")
            }
        }
    }

    @Test
    func `an idle connection is closed after its time`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.idleTimeout = .milliseconds(60)
        try TestServer.run(configuration) { server in
            let client = try server.connect()
            try client.send(post("/x", "y"))
            #expect(try client.read().status == 200)
            #expect(try client.readToEnd().isEmpty)
            #expect(server.observer.closed.next() == "idle")
        }
    }

    @Test
    func `a reader that takes nothing is given up`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.writeTimeout = .milliseconds(100)
        try TestServer.run(configuration) { server in
            let client = try TestClient(port: server.port, receiveBuffer: 4_096)
            try client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(server.observer.closed.next() == "slow_reader")
        }
    }

    @Test
    func `what readers leave unread has a bound, beyond which an answer is cut off`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.maximumBufferedBytes = 64 * 1_024
        try TestServer.run(configuration) { server in
            let slow = try TestClient(port: server.port, receiveBuffer: 4_096)
            try slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(server.observer.closed.next() == "unread_answers")
            let next = try server.connect()
            try next.send(post("/x", "y"))
            #expect(try next.read().status == 200)
        }
    }

    @Test
    func `a drain closes idle connections, answers what is in flight and ends`() throws {
        try TestServer.run { server in
            let idle = try server.connect()
            try idle.send(post("/x", "y"))
            #expect(try idle.read().status == 200)
            let waiting = try server.connect()
            try waiting.send(post("/later", "x"))
            let exchange = try #require(server.handler.pending.next())
            let half = try server.connect()
            try half.send("POST /half HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na")
            let turned = Inbox<Bool>()
            server.loop.post { turned.put(true) }
            _ = turned.next()
            let loop = server.loop
            loop.post { loop.beginDrain() }
            #expect(try idle.readToEnd().isEmpty)
            #expect(throws: ClientError.self) { try server.connect() }
            server.answer(exchange, "done")
            let last = try waiting.readToEnd()
            #expect(last.contains("Connection: close") && last.hasSuffix("done"))
            try half.send("b")
            #expect(try half.readToEnd().hasSuffix("post /half||ab"))
            #expect(server.ended.next() == true)
        }
    }

    @Test
    func `whom the kernel has let in when a drain begins is answered, and nobody is waited for long`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.lingerTimeout = .milliseconds(300)
        try TestServer.run(configuration) { server in
            let (held, blocked) = (Inbox<Bool>(), Inbox<Bool>())
            let loop = server.loop
            loop.post {
                blocked.put(true)
                _ = held.next()
                loop.beginDrain()
            }
            _ = blocked.next()
            // Nobody accepts now: all of these stand in the kernel's queue.
            let asking = try (0..<200).map { _ in try server.connect() }
            for client in asking { try client.send(post("/x", "y")) }
            let late = try server.connect()
            let silent = try server.connect()
            held.put(true)
            for client in asking {
                let answer = try client.readToEnd()
                #expect(answer.contains("Connection: close\r\n") && answer.hasSuffix("post /x||y"))
            }
            try late.send(post("/late", "z"))
            #expect(try late.readToEnd().hasSuffix("post /late||z"))
            #expect(try silent.readToEnd().isEmpty)
            #expect(server.ended.next() == true)
            #expect(throws: ClientError.self) { try server.connect() }
        }
    }

    @Test
    func `a drain ends at its deadline, and stopping abandons what is open`() throws {
        try TestServer.run { server in
            let client = try server.connect()
            try client.send(post("/later", "x"))
            let exchange = try #require(server.handler.pending.next())
            let loop = server.loop
            loop.post { loop.beginDrain(deadline: .milliseconds(50)) }
            #expect(server.ended.next() == true)
            #expect(server.handler.abandoned.next() == exchange)
            #expect(try client.readToEnd().isEmpty)
        }
    }

    @Test
    func `one connection too many is told so, and its place is free again afterwards`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.maximumConnections = 2
        try TestServer.run(configuration) { server in
            var first: TestClient? = try server.connect()
            let second = try server.connect()
            for client in [first, second] {
                try client?.send(post("/x", "y"))
                #expect(try client?.read().status == 200)
            }
            let third = try server.connect()
            let answer = try third.readToEnd()
            #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("Retry-After: "))
            #expect(server.observer.refused.next() == "503 too_many_connections")
            first = nil
            _ = server.observer.closed.next()
            let fourth = try server.connect()
            try fourth.send(post("/x", "z"))
            #expect(try fourth.read().text == "post /x||z")
        }
    }

    @Test
    func `a thousand connections are served at once, all waiting together`() throws {
        var files = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &files)
        files.rlim_cur = min(files.rlim_max, 8_192)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &files)
        try TestServer.run { server in
            let clients = try (0..<1_000).map { _ in try server.connect() }
            for round in 0..<2 {
                for client in clients { try client.send(post("/later", "\(round)")) }
                let exchanges = try clients.map { _ in try #require(server.handler.pending.next()) }
                #expect(Set(exchanges).count == 1_000 && Set(exchanges.map(\.slot)).count == 1_000)
                for exchange in exchanges.reversed() { server.answer(exchange, "\(exchange.slot)") }
                let slots = try clients.map { try $0.read().text }
                #expect(Set(slots).count == 1_000)
            }
        }
    }

    @Test
    func `added descriptors, timers and posted actions run on the loop`() throws {
        try TestServer.run { server in
            let (loop, seen) = (server.loop, Inbox<String>())
            var ends: [Int32] = [0, 0]
            pipe(&ends)
            let (reader, writer) = (ends[0], ends[1])
            loop.post {
                var ticks = 0
                var ticker: HTTPTimerID?
                ticker = loop.every(.milliseconds(5)) {
                    ticks += 1
                    if ticks == 3, let ticker {
                        loop.cancel(ticker)
                        seen.put("third tick")
                    }
                }
                let never = loop.after(.milliseconds(1)) { seen.put("never") }
                loop.cancel(never)
                let isAdded = loop.addDescriptor(reader) {
                    var byte: UInt8 = 0
                    read(reader, &byte, 1)
                    seen.put("byte \(byte)")
                    loop.removeDescriptor(reader)
                }
                seen.put("added \(isAdded)")
            }
            #expect(seen.next() == "added true")
            #expect(seen.next() == "third tick")
            var byte: UInt8 = 7
            write(writer, &byte, 1)
            #expect(seen.next() == "byte 7")
            #expect(seen.count == 0)
            close(reader)
            close(writer)
        }
    }

    @Test
    func `two loops share a port when told to, and a taken port is a clear error`() throws {
        var configuration = HTTPServerConfiguration()
        configuration.sharesPort = true
        try TestServer.run(configuration) { server in
            let other = try HTTPEventLoop(configuration: configuration, handler: TestHandler())
            #expect(try other.listen(address: "127.0.0.1", port: server.port) == server.port)
            let alone = try HTTPEventLoop(handler: TestHandler())
            let error = #expect(throws: HTTPServerError.self) {
                try alone.listen(address: "127.0.0.1", port: server.port)
            }
            #expect(error?.errno == EADDRINUSE && error?.description.contains("another port") == true)
            #expect(throws: HTTPServerError.self) { try alone.listen(address: "localhost", port: 0) }
        }
    }
}
