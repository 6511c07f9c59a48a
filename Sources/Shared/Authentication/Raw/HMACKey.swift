import COpenSSL

/// A keyed HMAC-SHA256 context, made once and started again for each message. Belongs to one thread.
final class HMACKey {
    private let context: OpaquePointer

    /// Fails when OpenSSL has no HMAC (a broken configuration) or memory is short.
    init?(_ key: [UInt8]) {
        guard let mac = EVP_MAC_fetch(nil, "HMAC", nil) else { return nil }
        defer { EVP_MAC_free(mac) }
        guard let context = EVP_MAC_CTX_new(mac) else { return nil }
        self.context = context
        guard daybook_hmac_sha256_key(context, key, key.count) == 1 else { return nil }
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// The 32 bytes of the message's authentication code; nil if OpenSSL fails.
    func code(of message: UnsafeRawBufferPointer) -> InlineArray<32, UInt8>? {
        var code: InlineArray<32, UInt8> = InlineArray(repeating: 0)
        var length = 0
        // Without a key the context is set back to the one it has.
        guard EVP_MAC_init(context, nil, 0, nil) == 1,
            EVP_MAC_update(context, message.baseAddress?.assumingMemoryBound(to: UInt8.self), message.count) == 1
        else { return nil }
        var span = code.mutableSpan
        let done = span.withUnsafeMutableBufferPointer { EVP_MAC_final(context, $0.baseAddress, &length, $0.count) }
        return done == 1 && length == 32 ? code : nil
    }

    /// Compares in a time that does not depend on the bytes.
    func isCode(_ given: InlineArray<32, UInt8>, of message: UnsafeRawBufferPointer) -> Bool {
        guard let code = code(of: message) else { return false }
        return code.span.withUnsafeBytes { own in
            given.span.withUnsafeBytes { other in
                CRYPTO_memcmp(own.baseAddress, other.baseAddress, 32) == 0
            }
        }
    }
}
