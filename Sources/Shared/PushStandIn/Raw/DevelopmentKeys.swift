import COpenSSL

/// Keys and certificates made on the spot, for development and tests.
public enum DevelopmentKeys {
    /// An authority of its own and a server's certificate from it, in PEM.
    public struct Certificates: Sendable {
        public let authority: [UInt8]
        public let certificate: [UInt8]
        public let privateKey: [UInt8]
    }

    /// A private key for ES256, in PEM.
    public static func p256() -> [UInt8]? { privateKey(daybook_make_p256_key()) }

    /// A private key for RS256, in PEM.
    public static func rsa() -> [UInt8]? { privateKey(daybook_make_rsa_key()) }

    /// Certificates that are good for a week.
    ///
    /// - Parameter names: as in subjectAltName: `DNS:localhost,IP:127.0.0.1`.
    /// - Returns: nil if OpenSSL fails.
    public static func certificates(for names: String) -> Certificates? {
        guard let authorityKey = daybook_make_p256_key(), let serverKey = daybook_make_p256_key() else { return nil }
        defer {
            EVP_PKEY_free(authorityKey)
            EVP_PKEY_free(serverKey)
        }
        guard let authority = make("Daybook development authority", authorityKey, issuer: nil, authorityKey),
            let authorityText = text({ PEM_write_bio_X509($0, authority) })
        else { return nil }
        defer { X509_free(authority) }
        guard let server = make("Daybook stand-in", serverKey, issuer: authority, authorityKey, names: names) else {
            return nil
        }
        defer { X509_free(server) }
        guard let certificate = text({ PEM_write_bio_X509($0, server) }),
            let key = text({ PEM_write_bio_PrivateKey($0, serverKey, nil, nil, 0, nil, nil) })
        else { return nil }
        return Certificates(authority: authorityText, certificate: certificate, privateKey: key)
    }

    /// One certificate, signed by `signingKey`; without an issuer it is an authority, signed by itself.
    private static func make(
        _ name: String,
        _ key: OpaquePointer,
        issuer: OpaquePointer?,
        _ signingKey: OpaquePointer,
        names: String? = nil
    ) -> OpaquePointer? {
        guard let certificate = X509_new() else { return nil }
        var serial = Int.random(in: 1 ... .max)
        if issuer == nil { serial &= 0xffff_ffff }
        let week = 7 * 86_400
        let isMade =
            X509_set_version(certificate, 2) == 1
            && ASN1_INTEGER_set(X509_get_serialNumber(certificate), max(1, serial)) == 1
            // An hour ago, for clocks that differ.
            && X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != nil
            && X509_gmtime_adj(X509_getm_notAfter(certificate), week) != nil
            && X509_set_pubkey(certificate, key) == 1
            && X509_NAME_add_entry_by_txt(
                X509_get_subject_name(certificate),
                "CN",
                Int32(MBSTRING_UTF8),
                name,
                -1,
                -1,
                0
            )
                == 1
            && X509_set_issuer_name(certificate, X509_get_subject_name(issuer ?? certificate)) == 1
            && add(NID_basic_constraints, issuer == nil ? "critical,CA:TRUE" : "CA:FALSE", to: certificate)
            && (names.map { add(NID_subject_alt_name, $0, to: certificate) } ?? true)
            && X509_sign(certificate, signingKey, EVP_sha256()) > 0
        guard isMade else {
            X509_free(certificate)
            ERR_clear_error()
            return nil
        }
        return certificate
    }

    private static func add(_ kind: Int32, _ value: String, to certificate: OpaquePointer) -> Bool {
        guard let part = X509V3_EXT_conf_nid(nil, nil, kind, value) else { return false }
        defer { X509_EXTENSION_free(part) }
        return X509_add_ext(certificate, part, -1) == 1
    }

    private static func privateKey(_ key: OpaquePointer?) -> [UInt8]? {
        guard let key else { return nil }
        defer { EVP_PKEY_free(key) }
        return text { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    private static func text(_ write: (OpaquePointer) -> Int32) -> [UInt8]? {
        guard let bio = BIO_new(BIO_s_mem()) else { return nil }
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { return nil }
        var start: UnsafeMutablePointer<CChar>?
        let count = daybook_bio_bytes(bio, &start)
        guard count > 0, let start else { return nil }
        return UnsafeBufferPointer(start: start, count: count).map { UInt8(bitPattern: $0) }
    }
}
