/// A URL that may be fetched: `https://`, or `http://` to this machine alone.
public struct FetchURL: Sendable, Hashable {
    public let text: String
    /// Plain HTTP to a loopback host.
    public let isPlain: Bool

    /// Nil for any other scheme, a user or password in the URL, a fragment, or characters that a URL can't hold.
    public init?(_ text: String) {
        guard text.utf8.count <= 2048, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }), !text.contains("#") else {
            return nil
        }
        let rest: Substring
        if text.hasPrefix("https://") {
            rest = text.dropFirst(8)
            isPlain = false
        } else if text.hasPrefix("http://") {
            rest = text.dropFirst(7)
            isPlain = true
        } else {
            return nil
        }
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard let host = Self.host(authority) else { return nil }
        if isPlain, !Self.loopbackHosts.contains(host) { return nil }
        self.text = text
    }

    private static let loopbackHosts = ["localhost", "127.0.0.1", "[::1]"]

    /// The host of `host` or `host:port`, if both hold nothing but what they may: two readers can't differ over it.
    private static func host(_ authority: Substring) -> String? {
        var host = authority
        if !authority.hasSuffix("]"), let colon = authority.lastIndex(of: ":") {
            let port = authority[authority.index(after: colon)...]
            guard port.utf8.allSatisfy({ (48...57).contains($0) }), let number = UInt16(port), number > 0 else {
                return nil
            }
            host = authority[..<colon]
        }
        guard !host.isEmpty else { return nil }
        let isLiteral = host.hasPrefix("[") && host.hasSuffix("]") && host.count > 2
        let inside = isLiteral ? host.dropFirst().dropLast() : host
        let fits = inside.utf8.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "."), UInt8(ascii: "-"): true
            case UInt8(ascii: ":"): isLiteral
            default: false
            }
        }
        return fits ? host.lowercased() : nil
    }
}
