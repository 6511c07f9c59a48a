import COpenSSL

/// Reads public keys out of PEM text.
enum PEM {
    /// The keys of all `PUBLIC KEY` and `CERTIFICATE` blocks. A certificate that issued an earlier one is its chain,
    /// and no key of ours.
    static func publicKeys(_ text: [UInt8]) throws(KeyFailure) -> [PublicKey] {
        var keys: [PublicKey] = []
        var certificates: [Certificate] = []
        for block in try blocks(text) {
            switch block.name {
            case "PUBLIC KEY": keys.append(try PublicKey.subjectPublicKeyInfo(block.der))
            case "CERTIFICATE":
                guard let certificate = Certificate(der: block.der) else { throw KeyFailure(.unsupportedKey) }
                if !certificates.contains(where: certificate.isIssuer) {
                    keys.append(try PublicKey.certificate(certificate))
                }
                certificates.append(certificate)
            case let name where name.hasSuffix("PRIVATE KEY"): throw KeyFailure(.privateKey)
            default: throw KeyFailure(.unsupportedKey)
            }
        }
        guard !keys.isEmpty else { throw KeyFailure(.noKeys) }
        return keys
    }

    private static func blocks(_ text: [UInt8]) throws(KeyFailure) -> [(name: String, der: [UInt8])] {
        guard let length = Int32(exactly: text.count), let bio = BIO_new_mem_buf(text, length) else {
            throw KeyFailure(.noKeys)
        }
        defer {
            BIO_free(bio)
            // The end of the text is an error to OpenSSL.
            ERR_clear_error()
        }
        var blocks: [(name: String, der: [UInt8])] = []
        while true {
            var name: UnsafeMutablePointer<CChar>?
            var header: UnsafeMutablePointer<CChar>?
            var data: UnsafeMutablePointer<UInt8>?
            var count = 0
            guard PEM_read_bio(bio, &name, &header, &data, &count) == 1 else { break }
            defer {
                daybook_openssl_free(name)
                daybook_openssl_free(header)
                daybook_openssl_free(data)
            }
            guard blocks.count < KeySet.mostPerAlgorithm * 4 else { throw KeyFailure(.tooManyKeys) }
            guard let name, let data, count > 0 else { throw KeyFailure(.unsupportedKey) }
            blocks.append((String(cString: name), Array(UnsafeBufferPointer(start: data, count: count))))
        }
        // A block cut off, as of a file that is being written, must not pass for the end.
        guard daybook_pem_is_at_end() == 1 else { throw KeyFailure(.brokenPEM) }
        return blocks
    }
}

/// A certificate, which for us is the envelope of a key: its dates and its signature are not looked at.
final class Certificate {
    let handle: OpaquePointer

    init?(der: [UInt8]) {
        let handle = der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_X509(nil, &position, bytes.count)
        }
        guard let handle else {
            ERR_clear_error()
            return nil
        }
        self.handle = handle
    }

    deinit { X509_free(handle) }

    /// Never so if the other issued itself: two of one name, old and new, are two keys.
    func isIssuer(of other: Certificate) -> Bool {
        X509_check_issued(handle, other.handle) == X509_V_OK
            && X509_check_issued(other.handle, other.handle) != X509_V_OK
    }
}
