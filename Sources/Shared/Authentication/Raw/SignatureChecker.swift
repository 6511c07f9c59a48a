import COpenSSL

/// Checks signatures of one public key, over a context made once. Belongs to one thread.
final class SignatureChecker {
    private let key: PublicKey
    private let context: OpaquePointer
    private var der: InlineArray<72, UInt8> = InlineArray(repeating: 0)

    /// Fails when memory is short or OpenSSL has no such algorithm (a broken configuration).
    init?(_ key: PublicKey) {
        guard let context = EVP_PKEY_CTX_new(key.handle, nil) else { return nil }
        self.key = key
        self.context = context
        guard EVP_PKEY_verify_init(context) == 1, EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1 else {
            return nil
        }
        if key.kind == .rsa, EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) != 1 { return nil }
    }

    deinit { EVP_PKEY_CTX_free(context) }

    /// - Parameters:
    ///   - signature: as JWS has it: of RSA as it is, of ES256 the two numbers, 32 bytes each.
    ///   - digest: the SHA-256 of what was signed.
    /// - Returns: whether this key made it.
    func isSignature(_ signature: UnsafeBufferPointer<UInt8>, of digest: InlineArray<32, UInt8>) -> Bool {
        let result = digest.span.withUnsafeBufferPointer { digest in
            switch key.kind {
            case .rsa:
                return EVP_PKEY_verify(context, signature.baseAddress, signature.count, digest.baseAddress, 32)
            case .p256:
                guard signature.count == 64 else { return 0 }
                let length = writeDER(signature)
                return der.span.withUnsafeBufferPointer {
                    EVP_PKEY_verify(context, $0.baseAddress, length, digest.baseAddress, 32)
                }
            }
        }
        if result != 1 { ERR_clear_error() }
        return result == 1
    }

    /// Both numbers as ASN.1 integers in a sequence, at most 72 bytes. Returns how many.
    private func writeDER(_ signature: UnsafeBufferPointer<UInt8>) -> Int {
        var end = 2
        for start in stride(from: 0, through: 32, by: 32) {
            var first = start
            while first < start + 31, signature[first] == 0 { first += 1 }
            let needsZero = signature[first] >= 0x80
            der[end] = 2
            der[end + 1] = UInt8(truncatingIfNeeded: start + 32 - first + (needsZero ? 1 : 0))
            end += 2
            if needsZero {
                der[end] = 0
                end += 1
            }
            while first < start + 32 {
                der[end] = signature[first]
                first += 1
                end += 1
            }
        }
        der[0] = 0x30
        der[1] = UInt8(truncatingIfNeeded: end - 2)
        return end
    }
}

/// SHA-256 over a context made once. Belongs to one thread.
final class SHA256Digester {
    private let context: OpaquePointer

    init?() {
        guard let context = EVP_MD_CTX_new() else { return nil }
        self.context = context
        guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { return nil }
    }

    deinit { EVP_MD_CTX_free(context) }

    func digest(_ message: UnsafeRawBufferPointer) -> InlineArray<32, UInt8>? {
        var digest: InlineArray<32, UInt8> = InlineArray(repeating: 0)
        // Without an algorithm the context keeps the one it has.
        guard EVP_DigestInit_ex(context, nil, nil) == 1,
            EVP_DigestUpdate(context, message.baseAddress, message.count) == 1
        else { return nil }
        var span = digest.mutableSpan
        let done = span.withUnsafeMutableBufferPointer { EVP_DigestFinal_ex(context, $0.baseAddress, nil) }
        return done == 1 ? digest : nil
    }
}
