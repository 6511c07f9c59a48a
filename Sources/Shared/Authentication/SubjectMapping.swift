public import Domain

/// Maps a token's subject to a user.
public enum SubjectMapping {
    /// RFC 4122's namespace for URLs.
    private static let urls = UUID128(high: 0x6ba7_b811_9dad_11d1, low: 0x80b4_00c0_4fd4_30c8)

    /// A subject that is a UUID is the user; any other is UUIDv5 (UUIDv5 (URL namespace, issuer), subject), so that
    /// equal subjects of two issuers are two users. Nil only if the subject is empty or longer than 256 bytes.
    public static func user(subject: Span<UInt8>, issuer: Span<UInt8>) -> UserID? {
        guard subject.count > 0, subject.count <= 256 else { return nil }
        if let user = UserID(ascii: subject) { return user }
        guard let namespace = version5(namespace: urls, name: issuer) else { return nil }
        return version5(namespace: namespace, name: subject)
    }

    private static func version5(namespace: UUID128, name: Span<UInt8>) -> UUID128? {
        var message: [UInt8] = []
        for word in [namespace.high, namespace.low] {
            for shift in stride(from: UInt64(56), through: 0, by: -8) {
                message.append(UInt8(truncatingIfNeeded: word >> shift))
            }
        }
        for index in 0..<name.count { message.append(name[index]) }
        guard let digest = sha1(message) else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for index in 0..<8 {
            words.0 = words.0 << 8 | UInt64(digest[index])
            words.1 = words.1 << 8 | UInt64(digest[index + 8])
        }
        return UUID128(
            high: words.0 & 0xffff_ffff_ffff_0fff | 0x5000,
            low: words.1 & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
        )
    }
}
