import COpenSSL

/// A private key that tokens are signed with: the operator's tool and tests have one, the services never.
final class PrivateKey {
    private let handle: OpaquePointer
    let algorithm: TokenAlgorithm

    /// Of PEM text without a password: RSA of at least 2048 bits, or P-256.
    init(pem: [UInt8]) throws(KeyFailure) {
        guard let length = Int32(exactly: pem.count), let handle = daybook_private_key(pem, length) else {
            ERR_clear_error()
            throw KeyFailure(.noPrivateKey)
        }
        if EVP_PKEY_is_a(handle, "RSA") == 1, PublicKey.rsaBits.contains(Int(EVP_PKEY_get_bits(handle))) {
            algorithm = .rs256
        } else if EVP_PKEY_is_a(handle, "EC") == 1, PublicKey.groupName(handle) == "prime256v1" {
            algorithm = .es256
        } else {
            EVP_PKEY_free(handle)
            throw KeyFailure(.unsupportedKey)
        }
        self.handle = handle
    }

    deinit { EVP_PKEY_free(handle) }

    /// The public key in DER, with its kind; nil if OpenSSL fails.
    var publicKey: [UInt8]? {
        let length = i2d_PUBKEY(handle, nil)
        guard length > 0 else { return nil }
        var der = [UInt8](repeating: 0, count: Int(length))
        let written = der.withUnsafeMutableBufferPointer { bytes in
            var position = bytes.baseAddress
            return i2d_PUBKEY(handle, &position)
        }
        return written == length ? der : nil
    }

    /// The signature as JWS has it.
    func signature(of message: [UInt8]) -> [UInt8]? {
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        var length = 0
        guard EVP_DigestSignInit_ex(context, nil, "SHA256", nil, nil, handle, nil) == 1,
            EVP_DigestSign(context, nil, &length, message, message.count) == 1
        else { return nil }
        var signature = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSign(context, &signature, &length, message, message.count) == 1, length <= signature.count
        else { return nil }
        signature.removeLast(signature.count - length)
        return algorithm == .es256 ? Self.fixedWidth(signature) : signature
    }

    /// The two numbers of an ECDSA signature in DER, 32 bytes each.
    private static func fixedWidth(_ der: [UInt8]) -> [UInt8]? {
        let parsed = der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &position, bytes.count)
        }
        guard let parsed else { return nil }
        defer { ECDSA_SIG_free(parsed) }
        var first = [UInt8](repeating: 0, count: 32)
        var second = first
        guard BN_bn2binpad(ECDSA_SIG_get0_r(parsed), &first, 32) == 32,
            BN_bn2binpad(ECDSA_SIG_get0_s(parsed), &second, 32) == 32
        else { return nil }
        return first + second
    }
}
