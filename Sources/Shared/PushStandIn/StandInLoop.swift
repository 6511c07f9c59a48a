import Glibc
import HTTP2
import JSON
import ServiceRuntime
import Synchronization

/// Serves all connections of a stand-in, on its one thread.
final class StandInLoop: ServerConnectionHandler {
    private struct Pending {
        let connection: ServerConnection
        let stream: Int32
        let reply: StandInScript.Reply
        let due: Int64
    }

    private let listener: LoopbackListener
    private let context: TLSContext
    private let shared: StandInShared
    private let time = SystemTime()
    private var connections: [(connection: ServerConnection, number: Int)] = []
    private var delayed: [Pending] = []
    private var gated: [Int: [Pending]] = [:]
    private var scriptStamp: [Int]?

    init(_ listener: LoopbackListener, _ context: TLSContext, _ shared: StandInShared) {
        self.listener = listener
        self.context = context
        self.shared = shared
    }

    func run() {
        blockBrokenPipeSignal()
        readScript()
        while !shared.stopFlag.isRaised {
            guard shared.isFrozen.load(ordering: .acquiring) else {
                turn()
                continue
            }
            shared.frozen.raise()
            shared.stopFlag.wait()
        }
    }

    private func turn() {
        var entries = [
            pollfd(fd: shared.wake.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        for (connection, _) in connections {
            let events = connection.wantsWrite ? POLLIN | POLLOUT : POLLIN
            entries.append(pollfd(fd: connection.descriptor, events: Int16(events), revents: 0))
        }
        poll(&entries, nfds_t(entries.count), Int32(clamping: waitMilliseconds))
        if entries[0].revents != 0 { shared.wake.clear() }
        for index in connections.indices where entries[index + 2].revents != 0 {
            connections[index].connection.advance()
        }
        if entries[1].revents != 0 { accept() }
        let now = time.monotonicNanoseconds()
        for pending in delayed where pending.due <= now { answer(pending) }
        delayed.removeAll { $0.due <= now }
        for (connection, _) in connections { connection.flush() }
        connections.removeAll { $0.connection.isClosed }
    }

    private var waitMilliseconds: Int64 {
        guard let next = delayed.map(\.due).min() else { return 60_000 }
        return max(0, (next - time.monotonicNanoseconds()) / 1_000_000 + 1)
    }

    private func accept() {
        while let descriptor = listener.take() {
            let number = shared.connections.add(1, ordering: .acquiringAndReleasing).newValue
            let made = try? ServerConnection(
                descriptor,
                context,
                mostStreams: shared.options.mostStreams,
                handler: self
            )
            guard let made else { continue }
            connections.append((made, number))
            made.advance()
        }
    }

    func received(_ request: ServerRequest, stream: Int32, on connection: ServerConnection) {
        let path = request.header(":path") ?? ""
        if path == "/token" { return answerToken(stream, connection) }
        readScript()
        let token = Self.token(path, request.body)
        let reply = shared.next(token)
        let answers = reply.action == .answer || reply.action == .answerAndClose || reply.action == .goAwayAfter
        let received = StandInRequest(
            headers: request.headers,
            body: request.body,
            token: token,
            connection: connections.first { $0.connection === connection }?.number ?? 0,
            stream: stream,
            status: answers ? reply.status : 0
        )
        if let file = shared.options.recordFile { _ = SmallFile.write(file, received.line, appends: true) }
        let now = time.monotonicNanoseconds()
        let delay = Int64(clamping: reply.delayMilliseconds).multipliedReportingOverflow(by: 1_000_000).partialValue
        let pending = Pending(connection: connection, stream: stream, reply: reply, due: now &+ delay)
        if reply.gate > 0 {
            gated[reply.gate, default: []].append(pending)
            if gated[reply.gate, default: []].count >= reply.gate {
                for waiting in gated.removeValue(forKey: reply.gate) ?? [] { answer(waiting) }
            }
        } else if reply.delayMilliseconds > 0 {
            delayed.append(pending)
        } else {
            answer(pending)
        }
        shared.log.append(received)
    }

    private func answer(_ pending: Pending) {
        let (connection, stream, reply) = (pending.connection, pending.stream, pending.reply)
        switch reply.action {
        case .answer: respond(pending)
        case .refuse: connection.reset(stream, isRefused: true)
        case .reset: connection.reset(stream, isRefused: false)
        case .close: connection.close()
        case .answerAndClose:
            respond(pending)
            connection.closeWhenWritten()
        case .goAwayBefore: connection.goAway(last: max(0, stream - 2))
        case .goAwayAfter:
            respond(pending)
            connection.goAway(last: stream)
        case .silence: break
        }
    }

    private func respond(_ pending: Pending) {
        var headers: [(name: String, value: String)] = []
        if let retryAfter = pending.reply.retryAfter { headers.append(("retry-after", retryAfter)) }
        let body = pending.reply.bodyBytes
        if !body.isEmpty { headers.append(("content-type", "application/json")) }
        pending.connection.respond(pending.stream, status: pending.reply.status, headers: headers, body: body)
    }

    private func answerToken(_ stream: Int32, _ connection: ServerConnection) {
        let body = Array(#"{"access_token":"stand-in","expires_in":3600,"token_type":"Bearer"}"#.utf8)
        connection.respond(stream, status: 200, headers: [("content-type", "application/json")], body: body)
    }

    private func readScript() {
        guard let file = shared.options.scriptFile else { return }
        let stamp = SmallFile.stamp(file)
        guard stamp != scriptStamp else { return }
        scriptStamp = stamp
        if let script = SmallFile.read(file).flatMap(StandInScript.init(json:)) { shared.use(script) }
    }

    private static func token(_ path: String, _ body: [UInt8]) -> String {
        if path.hasPrefix("/3/device/") { return String(path.dropFirst(10)) }
        guard let parser = try? JSONParser(maximumDepth: 8) else { return "" }
        return body.withUnsafeBytes { bytes in
            let message = ((try? (try? parser.parse(copying: bytes))?.object?.member("message")) ?? nil)?.object
            return ((try? message?.member("token")) ?? nil)?.string ?? ""
        }
    }
}

extension StandInRequest {
    /// As the record file has it.
    fileprivate var line: [UInt8] {
        var writer = JSONWriter(reserving: 1024)
        writer.beginObject()
        writer.key("token")
        writer.string(token)
        writer.key("status")
        writer.integer(status)
        writer.key("connection")
        writer.integer(connection)
        writer.key("headers")
        writer.beginObject()
        for (name, value) in headers {
            writer.key(text: name)
            writer.string(name == "authorization" ? "***" : value)
        }
        writer.endObject()
        writer.key("body")
        writer.string(body)
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }
}
