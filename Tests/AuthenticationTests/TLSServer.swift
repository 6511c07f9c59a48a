import COpenSSL
import Glibc
import ServiceRuntime
import Synchronization

/// Answers every request over TLS on 127.0.0.1 with the same text, one connection after the other.
///
/// `@unchecked Sendable`: the pointer is set before the thread starts and freed after it has ended.
final class TLSServer: @unchecked Sendable {
    let port: UInt16
    private let context: OpaquePointer
    private let listener: Int32
    private let answer: Mutex<String>
    private let stop = StopFlag()
    private let count = Atomic<Int>(0)
    private let thread = Mutex<WorkerThread?>(nil)

    struct Failure: Error {
        let what: String
    }

    init(certificate: String, key: String = TestCertificates.privateKey, answer: String) throws {
        // OpenSSL writes to clients that have hung up; a service ignores the signal too.
        signal(SIGPIPE, SIG_IGN)
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw Failure(what: "context") }
        self.context = context
        self.answer = Mutex(answer)
        let text = Array(certificate.utf8)
        let parsed = text.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
            defer { BIO_free(memory) }
            return PEM_read_bio_X509(memory, nil, nil, nil)
        }
        let secret = Array(key.utf8).withUnsafeBytes { daybook_private_key($0.baseAddress, Int32($0.count)) }
        defer {
            X509_free(parsed)
            EVP_PKEY_free(secret)
        }
        let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        listener = listening
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listening, $0, length) == 0 && listen(listening, 16) == 0
                    && getsockname(listening, $0, &length) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard isBound, SSL_CTX_use_certificate(context, parsed) == 1, SSL_CTX_use_PrivateKey(context, secret) == 1
        else {
            throw Failure(what: "certificate, key or port")
        }
        let started = try WorkerThread.spawn(name: "tls") { [unowned self] in run() }
        thread.withLock { $0 = started }
    }

    deinit {
        stop.raise()
        thread.withLock { $0 }?.join(milliseconds: 10_000)
        close(listener)
        SSL_CTX_free(context)
    }

    /// Handshakes that were finished.
    var served: Int { count.load(ordering: .relaxed) }
    func say(_ text: String) { answer.withLock { $0 = text } }

    private func run() {
        while !stop.isRaised {
            var entries = [
                pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
                pollfd(fd: stop.fileDescriptor, events: Int16(POLLIN), revents: 0),
            ]
            poll(&entries, 2, -1)
            guard entries[0].revents != 0 else { continue }
            let client = accept(listener, nil, nil)
            guard client >= 0 else { continue }
            var limit = timeval(tv_sec: 5, tv_usec: 0)
            setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            serve(client)
            close(client)
        }
    }

    private func serve(_ client: Int32) {
        guard let session = SSL_new(context) else { return }
        defer { SSL_free(session) }
        SSL_set_fd(session, client)
        guard SSL_accept(session) == 1 else { return }
        count.wrappingAdd(1, ordering: .relaxed)
        var request: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while !request.suffix(4).elementsEqual(Array("\r\n\r\n".utf8)) {
            let read = SSL_read(session, &chunk, Int32(chunk.count))
            guard read > 0 else { return }
            request.append(contentsOf: chunk[..<Int(read)])
        }
        let text = Array(answer.withLock { $0 }.utf8)
        SSL_write(session, text, Int32(text.count))
        SSL_shutdown(session)
    }
}
