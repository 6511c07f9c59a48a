import Glibc

extension HTTPEventLoop {
    private static let acceptsPerTurn = 64
    private static let acceptPause: UInt64 = 100_000_000

    /// Whether there may be more.
    @discardableResult
    func acceptSome(_ listener: Int32) -> Bool {
        for _ in 0..<Self.acceptsPerTurn {
            let fd = acceptClient(listener)
            if fd >= 0 {
                admit(fd)
                continue
            }
            switch errno {
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                pauseAccepting(errno)
                return false
            case EINTR, ECONNABORTED, EPROTO:
                continue
            default:
                return false
            }
        }
        return true
    }

    /// Takes in the clients whom the kernel has let in already: closing the listener would reset them.
    func acceptWaiting() {
        for listener in listeners {
            while acceptSome(listener) {}
        }
    }

    private func admit(_ fd: Int32) {
        guard connectionCount < limits.connections, let connection = vacantConnection() else {
            turnAway(fd)
            return
        }
        guard poller.addConnection(fd, token: Token.connection | UInt64(connection.slot)) else {
            freeSlots.append(connection.slot)
            turnAway(fd)
            return
        }
        connection.open(fd)
        connectionCount += 1
        deadlines[connection.slot] = now &+ limits.requestTimeout
        observer?.connectionOpened()
    }

    private func vacantConnection() -> Connection? {
        if let slot = freeSlots.popLast() { return connections[slot] }
        guard let connection = Connection(slot: connections.count, limits: limits) else { return nil }
        connections.append(connection)
        deadlines.append(.max)
        return connection
    }

    /// Says why, as far as the socket takes it at once.
    private func turnAway(_ fd: Int32) {
        var response = Refusal.tooManyConnections.response
        response.closesConnection = true
        compose(response, isHead: false, persistence: .close)
        _ = Socket.send(fd, UnsafeRawBufferPointer(start: writer.start, count: writer.count))
        shutdown(fd, Int32(SHUT_WR))
        close(fd)
        observer?.requestRefused(status: response.status, reason: Refusal.tooManyConnections.code)
    }

    /// The listeners would stay ready and the loop would spin: they are left out for a moment.
    private func pauseAccepting(_ code: Int32) {
        guard acceptsAgainAt == nil else { return }
        for fd in listeners { poller.remove(fd) }
        acceptsAgainAt = now &+ Self.acceptPause
        observer?.acceptPaused(errno: code)
    }

    func resumeAccepting() {
        acceptsAgainAt = nil
        for (index, fd) in listeners.enumerated() {
            // A listener made during the pause is watched already.
            guard poller.addReadable(fd, token: Token.listener | UInt64(index)) || errno == EEXIST else {
                pauseAccepting(errno)
                return
            }
        }
    }

    func closeListeners() {
        for fd in listeners { close(fd) }
        listeners.removeAll()
        acceptsAgainAt = nil
    }
}
