import COpenSSL

/// SHA-256 of bytes: what a device token is known by.
public enum SHA256 {
    /// Nil if OpenSSL fails, as it does without memory.
    public static func digest(of message: [UInt8]) -> InlineArray<32, UInt8>? {
        var digest: InlineArray<32, UInt8> = InlineArray(repeating: 0)
        var span = digest.mutableSpan
        let done = span.withUnsafeMutableBufferPointer {
            EVP_Digest(message, message.count, $0.baseAddress, nil, EVP_sha256(), nil)
        }
        return done == 1 ? digest : nil
    }
}
