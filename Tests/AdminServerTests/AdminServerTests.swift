import AdminServer
import Glibc
import Observability
import ServiceRuntime
import Synchronization
import Testing

@Suite struct `The operators' door` {
    /// One request on a connection of its own; the whole answer as text.
    private func ask(_ address: String, _ request: String) throws -> String {
        let parts = address.split(separator: ":")
        let port = try #require(UInt16(parts[1]))
        let socketDescriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(socketDescriptor) }
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = port.bigEndian
        name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socketDescriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(connected == 0)
        let text = "\(request) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        _ = Array(text.utf8).withUnsafeBytes {
            send(socketDescriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(socketDescriptor, &chunk, chunk.count, 0)
            guard count > 0 else { break }
            answer += chunk[0..<count]
        }
        return String(decoding: answer, as: UTF8.self)
    }

    @Test func `it tells whether the process lives, is ready and what it counts`() throws {
        let reasons = Mutex(["the database is away"])
        let registry = MetricsRegistry()
        let server = AdminServer(host: "127.0.0.1", port: 0, metrics: registry) {
            .init(reasons: reasons.withLock { $0 })
        }
        let stop = StopFlag()
        let group = ServiceGroup([server], graceMilliseconds: 3000, log: .disabled)
        let status = Mutex<Int32?>(nil)
        let thread = try WorkerThread.spawn(name: "group") {
            let end = group.run(until: stop)
            status.withLock { $0 = end }
        }
        let deadline = Deadline.after(milliseconds: 5000)
        while server.address == nil && !deadline.hasPassed() { sched_yield() }
        let address = try #require(server.address)
        #expect(try ask(address, "GET /livez").hasPrefix("HTTP/1.1 200"))
        let away = try ask(address, "GET /readyz")
        #expect(away.hasPrefix("HTTP/1.1 503") && away.contains("the database is away"))
        reasons.withLock { $0 = [] }
        #expect(try ask(address, "GET /readyz").hasPrefix("HTTP/1.1 200"))
        #expect(try ask(address, "GET /metrics").contains("daybook_build_info"))
        #expect(try ask(address, "GET /nothing").hasPrefix("HTTP/1.1 404"))
        let refused = try ask(address, "DELETE /readyz")
        #expect(refused.hasPrefix("HTTP/1.1 405") && refused.contains("Allow: GET, HEAD"))
        stop.raise()
        #expect(thread.join(milliseconds: 5000))
        #expect(status.withLock { $0 } == 0)
    }
}
