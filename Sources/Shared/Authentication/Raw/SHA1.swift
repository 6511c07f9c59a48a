import COpenSSL

/// SHA-1, which UUIDs of version 5 are defined with; nothing else uses it.
func sha1(_ message: [UInt8]) -> InlineArray<20, UInt8>? {
    var digest: InlineArray<20, UInt8> = InlineArray(repeating: 0)
    var span = digest.mutableSpan
    let done = span.withUnsafeMutableBufferPointer {
        EVP_Digest(message, message.count, $0.baseAddress, nil, EVP_sha1(), nil)
    }
    return done == 1 ? digest : nil
}
