import Glibc

// How answers get out, and how connections end.
extension HTTPEventLoop {
    /// Answers a request for which the handler said `.later` (or, inside `handle`, the one it is about to say so for).
    /// On the loop's thread. Ignored if the exchange is gone.
    public func answer(_ exchange: HTTPExchangeID, _ response: HTTPResponse) {
        guard let connection = waiting(exchange) else { return }
        respond(connection, response)
    }

    /// The same without an array: the body's bytes are copied or sent before this returns.
    public func answer(
        _ exchange: HTTPExchangeID,
        status: Int,
        contentType: HTTPContentType = .json,
        headers: [HTTPHeader] = [],
        body: UnsafeRawBufferPointer
    ) {
        guard let connection = waiting(exchange) else { return }
        let head = connection.parser.head
        writer.write(
            status: status,
            contentType: contentType,
            headers: headers,
            body: body,
            isHead: head.pointee.method == .head,
            persistence: persistence(connection)
        )
        send(connection, status: status)
    }

    /// Whether an answer to this exchange would still reach somebody.
    public func isOpen(_ exchange: HTTPExchangeID) -> Bool {
        waiting(exchange) != nil
    }

    private func waiting(_ exchange: HTTPExchangeID) -> Connection? {
        guard exchange.slot < connections.count else { return nil }
        let connection = connections[exchange.slot]
        return connection.state == .waiting && connection.serial == exchange.serial ? connection : nil
    }

    func respond(_ connection: Connection, _ response: HTTPResponse) {
        if response.closesConnection { connection.machine.closeAfterAnswer() }
        let isHead = connection.parser.head.pointee.method == .head
        compose(response, isHead: isHead, persistence: persistence(connection))
        send(connection, status: response.status)
    }

    func compose(_ response: HTTPResponse, isHead: Bool, persistence: ResponseWriter.Persistence) {
        response.body.withUnsafeBytes { body in
            writer.write(
                status: response.status,
                contentType: response.contentType,
                headers: response.headers,
                body: body,
                isHead: isHead,
                persistence: persistence
            )
        }
    }

    private func persistence(_ connection: Connection) -> ResponseWriter.Persistence {
        if isDraining { connection.machine.closeAfterAnswer() }
        if connection.machine.closesAfterAnswer { return .close }
        return connection.parser.head.pointee.isHTTP10 ? .keepAliveHTTP10 : .keepAlive
    }

    private func send(_ connection: Connection, status: Int) {
        if connection.machine.beginAnswer() {
            waitingCount -= 1
            observer?.requestAnswered(status: status, nanoseconds: now &- connection.arrivedAt)
        }
        let bytes = UnsafeRawBufferPointer(start: writer.start, count: writer.count)
        switch Socket.send(connection.fd, bytes) {
        case .all:
            finishAnswer(connection)
        case .some(let count):
            guard connection.backlog.set(UnsafeRawBufferPointer(rebasing: bytes[count...]), from: pool) else {
                leave(connection, reason: "unread_answers")
                return
            }
            deadlines[connection.slot] = now &+ limits.writeTimeout
        case .failed:
            leave(connection, reason: "client_left")
        }
    }

    func flush(_ connection: Connection) {
        while !connection.backlog.isEmpty {
            switch Socket.send(connection.fd, connection.backlog.rest) {
            case .all:
                connection.backlog.clear(to: pool)
            case .some(0):
                return
            case .some(let count):
                connection.backlog.didSend(count, to: pool)
            case .failed:
                leave(connection, reason: "client_left")
                return
            }
        }
        finishAnswer(connection)
    }

    private func finishAnswer(_ connection: Connection) {
        switch connection.machine.finishAnswer() {
        case .linger: linger(connection)
        // Inside the handler the request's bytes are still in use; `serve` goes on afterwards.
        case .readNext: if !connection.isInHandler { beginNext(connection) }
        }
    }

    /// Makes ready for the next request. Served in a turn of its own, never from inside a handler's call.
    func beginNext(_ connection: Connection) {
        connection.beginMessage()
        deadlines[connection.slot] = now &+ limits.idleTimeout
        let hasMore = connection.hasMessageBytes()
        if hasMore { beginArrival(connection) } else { connection.input.release(to: pool) }
        if hasMore || connection.isReadable || isDraining { enqueue(connection) }
    }

    /// Answers with the server's own problem and closes: where the next request would begin is not known, or what comes
    /// until there is more than anybody should send. What is wrong with a body whose end is known is answered by
    /// `decline`, which keeps the connection.
    func refuse(_ connection: Connection, _ refusal: Refusal) {
        observer?.requestRefused(status: refusal.status, reason: refusal.code)
        connection.machine.closeAfterAnswer()
        let isHead = connection.parser.head.pointee.isComplete && connection.parser.head.pointee.method == .head
        compose(refusal.response, isHead: isHead, persistence: .close)
        send(connection, status: refusal.status)
    }

    /// Closes the sending side and reads on for a moment: closing with unread bytes would send a reset, and the client
    /// might never see the answer.
    private func linger(_ connection: Connection) {
        connection.discarded = 0
        if !connection.isInHandler { connection.input.release(to: pool) }
        deadlines[connection.slot] = now &+ limits.lingerTimeout
        shutdown(connection.fd, Int32(SHUT_WR))
        if connection.isReadable { discard(connection) }
    }

    /// Ends a connection; an exchange that is still open is abandoned.
    func leave(_ connection: Connection, reason: StaticString) {
        let action = connection.machine.leave()
        guard action != .nothing else { return }
        close(connection.fd)
        connection.fd = -1
        if !connection.isInHandler { connection.input.release(to: pool) }
        connection.backlog.clear(to: pool)
        deadlines[connection.slot] = .max
        retiredSlots.append(connection.slot)
        connectionCount -= 1
        observer?.connectionClosed(reason: reason)
        if action == .closeAndAbandon {
            waitingCount -= 1
            handler.exchangeAbandoned(connection.exchange)
        }
    }

    /// Looks for connections whose time is over.
    func sweep() {
        nextSweep = now &+ limits.sweepInterval
        for slot in deadlines.indices where deadlines[slot] <= now {
            let connection = connections[slot]
            switch connection.machine.deadlinePassed(hasBytes: connection.input.messageBytes > 0) {
            case .refuse: refuse(connection, .timeout)
            case .leaveIdle: leave(connection, reason: isDraining ? "drain" : "idle")
            case .leaveSlowReader: leave(connection, reason: "slow_reader")
            case .leaveDone: leave(connection, reason: "server_done")
            case .expire:
                let exchange = connection.exchange
                let response = handler.exchangeExpired(exchange)
                answer(exchange, response)
            case .nothing: deadlines[slot] = .max
            }
        }
    }
}
