import COpenSSL

/// What TLS connections of one kind have in common.
///
/// `@unchecked Sendable`: set up in init and only read afterwards; OpenSSL counts its references atomically.
public final class TLSContext: @unchecked Sendable {
    let handle: OpaquePointer

    private init(owning handle: OpaquePointer) {
        self.handle = handle
    }

    deinit { SSL_CTX_free(handle) }

    /// For clients: verifies the server's certificate and name, and offers HTTP/2 alone.
    ///
    /// - Parameter certificateFile: a PEM file of authorities to trust instead of the system's.
    /// - Returns: what connections are made with.
    /// - Throws: `untrusted` if the file holds none, `noResources` if OpenSSL does not start.
    public static func client(certificateFile: String?) throws(HTTP2Failure) -> TLSContext {
        let context = try make(TLS_client_method())
        SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER, nil)
        let isLoaded: Int32 =
            if let certificateFile {
                SSL_CTX_load_verify_locations(context.handle, certificateFile, nil)
            } else {
                SSL_CTX_set_default_verify_paths(context.handle)
            }
        guard isLoaded == 1 else {
            ERR_clear_error()
            throw HTTP2Failure(.untrusted, "no authority in the file of authorities")
        }
        return context
    }

    /// For servers. Takes HTTP/2 where the client offers it.
    ///
    /// - Parameters:
    ///   - certificate: its PEM file.
    ///   - privateKey: the PEM file of its key.
    ///   - speaksHTTP2: false refuses to agree on it, for tests of clients.
    /// - Returns: what connections are taken with.
    /// - Throws: `untrusted` if the two are not readable or don't fit.
    public static func server(
        certificate: String,
        privateKey: String,
        speaksHTTP2: Bool = true
    ) throws(HTTP2Failure) -> TLSContext {
        let context = try make(TLS_server_method())
        guard SSL_CTX_use_certificate_file(context.handle, certificate, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_use_PrivateKey_file(context.handle, privateKey, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_check_private_key(context.handle) == 1
        else {
            ERR_clear_error()
            throw HTTP2Failure(.untrusted, "certificate and key are not readable, or don't fit")
        }
        if speaksHTTP2 { SSL_CTX_set_alpn_select_cb(context.handle, selectHTTP2, nil) }
        return context
    }

    private static func make(_ method: OpaquePointer?) throws(HTTP2Failure) -> TLSContext {
        guard let handle = SSL_CTX_new(method) else { throw HTTP2Failure(.noResources) }
        let context = TLSContext(owning: handle)
        guard daybook_tls_at_least_1_2(handle) == 1 else { throw HTTP2Failure(.noResources) }
        daybook_tls_partial_writes(handle)
        daybook_tls_read_ahead(handle)
        return context
    }
}

/// ALPN's list for HTTP/2: a length and the name.
let http2Protocols: [UInt8] = [2, UInt8(ascii: "h"), UInt8(ascii: "2")]

private func selectHTTP2(
    _: OpaquePointer?,
    _ selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ length: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?,
    _ offeredLength: UInt32,
    _: UnsafeMutableRawPointer?
) -> Int32 {
    guard let selected, let length, let offered else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    return TLSStream.select(selected, length, UnsafeBufferPointer(start: offered, count: Int(offeredLength)))
}
