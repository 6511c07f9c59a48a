import Glibc

// How bytes become requests.
extension HTTPEventLoop {
    /// Reads and requests that one connection may have before the others get their turn.
    private static let stepsPerTurn = 32
    private static let discardLimit = 8 << 20

    func ready(_ connection: Connection, _ readiness: Readiness) {
        guard connection.state != .closed else { return }
        if readiness.isBroken {
            leave(connection, reason: connection.state == .lingering ? "server_done" : "client_left")
            return
        }
        if readiness.isHungUp { connection.peerIsDone = true }
        if readiness.isReadable || readiness.isHungUp { connection.isReadable = true }
        switch connection.machine.event(isWritable: readiness.isWritable, peerIsDone: connection.peerIsDone) {
        case .pump: pump(connection)
        case .flush: flush(connection)
        case .discard: discard(connection)
        case .leave: leave(connection, reason: "client_left")
        case .nothing: break
        }
    }

    func enqueue(_ connection: Connection) {
        guard !connection.isQueued else { return }
        connection.isQueued = true
        queue.append(connection)
    }

    /// Goes on with the connections that were put off.
    func goOn() {
        guard !queue.isEmpty else { return }
        let batch = queue
        queue.removeAll(keepingCapacity: true)
        for connection in batch {
            connection.isQueued = false
            if connection.state == .reading { pump(connection) }
        }
    }

    /// Parses what is there, serves what is complete and reads on, until nothing is left or an answer is awaited.
    func pump(_ connection: Connection) {
        var steps = 0
        while connection.state == .reading {
            guard steps < Self.stepsPerTurn else {
                enqueue(connection)
                return
            }
            steps += 1
            switch connection.parse() {
            case .complete:
                serve(connection)
                continue
            case .refused(let refusal):
                refuse(connection, refusal)
                return
            case .incomplete:
                sendContinue(connection)
            case nil:
                break
            }
            guard connection.state == .reading, connection.isReadable else { break }
            read(connection)
        }
        if connection.state == .reading, connection.input.messageBytes == 0 {
            connection.input.release(to: pool)
            if isDraining, !connection.isNew { leave(connection, reason: "drain") }
        }
    }

    private func read(_ connection: Connection) {
        guard connection.input.reserve(connection.wantedRoom, from: pool) else {
            refuse(connection, .overloaded)
            return
        }
        let room = connection.input.free
        switch Socket.receive(connection.fd, room) {
        case .bytes(let count):
            bytesReceived &+= UInt64(clamping: count)
            connection.input.didRead(count)
            // Less than there was room for: the socket is empty, and a new edge will tell of more.
            connection.isReadable = count == room.count || connection.peerIsDone
            // A line end behind the last request begins no new one.
            guard !connection.isArriving, connection.hasMessageBytes() else { return }
            beginArrival(connection)
        case .nothingNow:
            connection.isReadable = false
        case .end:
            leave(connection, reason: connection.input.messageBytes == 0 ? "client_done" : "client_left")
        case .failed:
            leave(connection, reason: "client_left")
        }
    }

    func beginArrival(_ connection: Connection) {
        connection.isArriving = true
        connection.isNew = false
        connection.arrivedAt = now
        deadlines[connection.slot] = now &+ limits.requestTimeout
    }

    private func sendContinue(_ connection: Connection) {
        let head = connection.parser.head
        guard head.pointee.wantsContinue, !connection.sentContinue else { return }
        connection.sentContinue = true
        guard head.pointee.bodyLength == 0 else { return }
        let interim: StaticString = "HTTP/1.1 100 Continue\r\n\r\n"
        let bytes = UnsafeRawBufferPointer(start: interim.utf8Start, count: interim.utf8CodeUnitCount)
        guard case .all = Socket.send(connection.fd, bytes) else {
            leave(connection, reason: "client_left")
            return
        }
    }

    /// Hands a whole request to the handler. Its bytes are let go when the handler returns.
    private func serve(_ connection: Connection) {
        guard let message = connection.input.message else { return }
        let head = connection.parser.head
        if let refusal = head.pointee.declined { return decline(connection, refusal) }
        var body = UnsafeRawBufferPointer(start: message + head.pointee.bodyStart, count: head.pointee.bodyLength)
        if head.pointee.isGzip {
            let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
            let outline = HTTPRequest(base: UnsafeRawPointer(message), parser: connection.parser, body: nothing)
            switch handler.bodyUse(outline) {
            case .read:
                switch gzip.decode(body) {
                case .body(let plain): body = plain
                case .corrupt: return decline(connection, .gzip)
                case .tooLarge: return decline(connection, .decompressedTooLarge)
                }
            case .ignore: body = nothing
            case .answer(let response): return decline(connection, response)
            }
        }
        connection.machine.handOver(keepsAlive: head.pointee.keepsAlive && !isDraining)
        connection.serial = connection.serial == .max ? 1 : connection.serial + 1
        deadlines[connection.slot] = now &+ limits.answerTimeout
        waitingCount += 1
        let exchange = connection.exchange
        connection.isInHandler = true
        let request = HTTPRequest(base: UnsafeRawPointer(message), parser: connection.parser, body: body)
        let disposition = handler.handle(request, exchange: exchange)
        connection.isInHandler = false
        // The socket may be closed already, if the handler answered by itself and the client had left.
        if connection.state == .closed { connection.input.release(to: pool) } else { connection.input.drop(to: pool) }
        settle(connection, disposition)
    }

    /// Answers with the server's own problem a request that was read to its end: the next one may follow.
    private func decline(_ connection: Connection, _ refusal: Refusal) {
        observer?.requestRefused(status: refusal.status, reason: refusal.code)
        decline(connection, refusal.response)
    }

    private func decline(_ connection: Connection, _ response: HTTPResponse) {
        connection.machine.handOver(keepsAlive: connection.parser.head.pointee.keepsAlive && !isDraining)
        waitingCount += 1
        connection.input.drop(to: pool)
        respond(connection, response)
    }

    private func settle(_ connection: Connection, _ disposition: HTTPDisposition) {
        guard connection.state == .waiting else {
            if connection.state == .reading { beginNext(connection) }
            return
        }
        switch disposition {
        case .answer(let response):
            respond(connection, response)
        case .later(let limit):
            if let limit { deadlines[connection.slot] = now &+ limit.clampedNanoseconds }
            if connection.peerIsDone { leave(connection, reason: "client_left") }
        }
    }

    func discard(_ connection: Connection) {
        while connection.state == .lingering, connection.isReadable {
            // What stands in the writer was sent or copied.
            switch Socket.receive(connection.fd, writer.scratch()) {
            case .bytes(let count):
                connection.discarded += count
                if connection.discarded > Self.discardLimit { leave(connection, reason: "refused") }
            case .nothingNow:
                connection.isReadable = false
            case .end, .failed:
                leave(connection, reason: "server_done")
            }
        }
    }
}
