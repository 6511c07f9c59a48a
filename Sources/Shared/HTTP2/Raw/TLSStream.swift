import COpenSSL
import Glibc

/// TLS over one socket that does not block; owns both. Belongs to one thread.
final class TLSStream {
    enum Step {
        case done
        case wantsRead
        case wantsWrite
        case failed(HTTP2Failure)
    }

    enum Moved {
        case bytes(Int)
        case wantsRead
        case wantsWrite
        case end
    }

    let descriptor: Int32
    private let handle: OpaquePointer
    private let context: TLSContext
    private let isClient: Bool

    /// Takes the socket over, also when it throws.
    private init(_ context: TLSContext, descriptor: Int32, isClient: Bool) throws(HTTP2Failure) {
        guard let handle = SSL_new(context.handle) else {
            close(descriptor)
            throw HTTP2Failure(.noResources)
        }
        self.handle = handle
        self.descriptor = descriptor
        self.context = context
        self.isClient = isClient
        guard SSL_set_fd(handle, descriptor) == 1 else { throw HTTP2Failure(.noResources) }
    }

    deinit {
        SSL_free(handle)
        close(descriptor)
    }

    /// Verifies that the server is `host`: a name, or an IP address in digits.
    static func client(_ context: TLSContext, descriptor: Int32, host: String) throws(HTTP2Failure) -> TLSStream {
        let stream = try TLSStream(context, descriptor: descriptor, isClient: true)
        var room = in6_addr()
        let isAddress = inet_pton(AF_INET, host, &room) == 1 || inet_pton(AF_INET6, host, &room) == 1
        let isSet =
            if isAddress {
                X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(stream.handle), host) == 1
            } else {
                SSL_set1_host(stream.handle, host) == 1 && daybook_tls_name_server(stream.handle, host) == 1
            }
        guard isSet, SSL_set_alpn_protos(stream.handle, http2Protocols, UInt32(http2Protocols.count)) == 0 else {
            throw HTTP2Failure(.noResources)
        }
        return stream
    }

    static func server(_ context: TLSContext, descriptor: Int32) throws(HTTP2Failure) -> TLSStream {
        try TLSStream(context, descriptor: descriptor, isClient: false)
    }

    /// Goes on with the handshake.
    func handshake() -> Step {
        ERR_clear_error()
        let result = isClient ? SSL_connect(handle) : SSL_accept(handle)
        guard result != 1 else { return agreesOnHTTP2 ? .done : .failed(HTTP2Failure(.noHTTP2)) }
        switch SSL_get_error(handle, result) {
        case SSL_ERROR_WANT_READ: return .wantsRead
        case SSL_ERROR_WANT_WRITE: return .wantsWrite
        case SSL_ERROR_SSL: return .failed(HTTP2Failure(.untrusted, refusal))
        default: return .failed(HTTP2Failure(.closed, "while TLS was agreed on"))
        }
    }

    func read(into room: UnsafeMutableRawBufferPointer) -> Moved {
        ERR_clear_error()
        let count = SSL_read(handle, room.baseAddress, Int32(clamping: room.count))
        return count > 0 ? .bytes(Int(count)) : reason(count)
    }

    /// Whether bytes were taken from the socket that nobody has read yet: `poll` says nothing of them.
    var hasBuffered: Bool { SSL_has_pending(handle) == 1 }

    func write(_ bytes: UnsafeRawBufferPointer) -> Moved {
        ERR_clear_error()
        let count = SSL_write(handle, bytes.baseAddress, Int32(clamping: bytes.count))
        return count > 0 ? .bytes(Int(count)) : reason(count)
    }

    /// Tells the peer that nothing more comes, if that can be done at once.
    func sayGoodbye() {
        ERR_clear_error()
        _ = SSL_shutdown(handle)
        ERR_clear_error()
    }

    private func reason(_ result: Int32) -> Moved {
        switch SSL_get_error(handle, result) {
        case SSL_ERROR_WANT_READ: .wantsRead
        case SSL_ERROR_WANT_WRITE: .wantsWrite
        default: .end
        }
    }

    private var agreesOnHTTP2: Bool {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(handle, &name, &length)
        guard let name, length == 2 else { return false }
        return name[0] == http2Protocols[1] && name[1] == http2Protocols[2]
    }

    /// OpenSSL's fixed text for what is wrong with the certificate, or with the handshake.
    private var refusal: String {
        let result = SSL_get_verify_result(handle)
        if result != Int(X509_V_OK) { return String(cString: X509_verify_cert_error_string(result)) }
        let code = ERR_peek_last_error()
        guard let text = ERR_reason_error_string(code) else { return "" }
        return String(cString: text)
    }

    /// A server's choice among the protocols that a client offers.
    static func select(
        _ selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>,
        _ length: UnsafeMutablePointer<UInt8>,
        _ offered: UnsafeBufferPointer<UInt8>
    ) -> Int32 {
        var index = 0
        while index < offered.count {
            let end = index + 1 + Int(offered[index])
            guard end <= offered.count, let start = offered.baseAddress else { break }
            if end - index == 3, offered[index + 1] == http2Protocols[1], offered[index + 2] == http2Protocols[2] {
                selected.pointee = start + index + 1
                length.pointee = 2
                return SSL_TLSEXT_ERR_OK
            }
            index = end
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
}
