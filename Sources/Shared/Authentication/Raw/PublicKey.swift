import COpenSSL

/// A public key of RSA or P-256, checked and never changed: RS256 and ES256 are verified with it.
///
/// `@unchecked Sendable`: OpenSSL only counts references in it, atomically, and reads the rest.
final class PublicKey: @unchecked Sendable {
    enum Kind: Sendable {
        case rsa
        case p256
    }

    /// Bits of the shortest and the longest RSA modulus: what is shorter can be broken, what is longer holds the loop.
    static let rsaBits = 2048...8192

    let handle: OpaquePointer
    let kind: Kind
    /// SubjectPublicKeyInfo: the same for the same key.
    let encoded: [UInt8]

    /// Takes the handle over, and refuses every key that must not verify a token.
    private init(owning handle: OpaquePointer) throws(KeyFailure) {
        var kind: Kind?
        if EVP_PKEY_is_a(handle, "RSA") == 1, Self.rsaBits.contains(Int(EVP_PKEY_get_bits(handle))) {
            kind = .rsa
        } else if EVP_PKEY_is_a(handle, "EC") == 1, Self.groupName(handle) == "prime256v1" {
            kind = .p256
        }
        guard let kind, Self.isSound(handle), let encoded = Self.encode(handle) else {
            EVP_PKEY_free(handle)
            ERR_clear_error()
            throw KeyFailure(.unsupportedKey)
        }
        self.handle = handle
        self.kind = kind
        self.encoded = encoded
    }

    deinit { EVP_PKEY_free(handle) }

    /// Of the big-endian modulus and exponent.
    static func rsa(modulus: [UInt8], exponent: [UInt8]) throws(KeyFailure) -> PublicKey {
        guard modulus.count <= rsaBits.upperBound / 8, (1...8).contains(exponent.count),
            let handle = daybook_rsa_public_key(modulus, Int32(modulus.count), exponent, Int32(exponent.count))
        else { throw unusable() }
        return try PublicKey(owning: handle)
    }

    /// Of the coordinates, 32 bytes each.
    static func p256(x: [UInt8], y: [UInt8]) throws(KeyFailure) -> PublicKey {
        guard x.count == 32, y.count == 32 else { throw KeyFailure(.unsupportedKey) }
        let point = [4] + x + y
        guard let handle = daybook_p256_public_key(point, point.count) else { throw unusable() }
        return try PublicKey(owning: handle)
    }

    /// Of a SubjectPublicKeyInfo in DER.
    static func subjectPublicKeyInfo(_ der: [UInt8]) throws(KeyFailure) -> PublicKey {
        let handle = der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_PUBKEY(nil, &position, bytes.count)
        }
        guard let handle else { throw unusable() }
        return try PublicKey(owning: handle)
    }

    static func certificate(_ certificate: Certificate) throws(KeyFailure) -> PublicKey {
        guard let handle = X509_get_pubkey(certificate.handle) else { throw unusable() }
        return try PublicKey(owning: handle)
    }

    private static func unusable() -> KeyFailure {
        ERR_clear_error()
        return KeyFailure(.unsupportedKey)
    }

    static func groupName(_ handle: OpaquePointer) -> String? {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(handle, &name, name.count, &length) == 1, length <= name.count else { return nil }
        return String(decoding: name[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The point lies on the curve, the modulus and the exponent can be those of a key.
    private static func isSound(_ handle: OpaquePointer) -> Bool {
        guard let context = EVP_PKEY_CTX_new(handle, nil) else { return false }
        defer { EVP_PKEY_CTX_free(context) }
        return EVP_PKEY_public_check(context) == 1
    }

    private static func encode(_ handle: OpaquePointer) -> [UInt8]? {
        var start: UnsafeMutablePointer<UInt8>?
        let length = i2d_PUBKEY(handle, &start)
        guard length > 0, let start else { return nil }
        defer { daybook_openssl_free(start) }
        return Array(UnsafeBufferPointer(start: start, count: Int(length)))
    }
}
