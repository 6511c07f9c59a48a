/// Where to listen: an IP address and a port. Names are left out, so that starting needs no name server.
public struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// IPv4 in dotted form, or IPv6 without brackets.
    public let host: String
    /// 0 lets the system choose.
    public let port: UInt16

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    public init?(_ text: String) {
        guard let (host, port) = Self.split(text[...], portFrom: 0), Self.isAddress(host) else { return nil }
        self.init(host: host, port: port)
    }

    public var isIPv6: Bool { host.utf8.contains(UInt8(ascii: ":")) }

    public var description: String {
        isIPv6 ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// Takes a setting of the form `host:port` apart.
    public static func endpoint(_ text: String) -> (host: String, port: UInt16)? {
        split(text[...], portFrom: 1)
    }

    /// Takes `host:port` or `[v6]:port` apart; the host is checked only for characters that no host has.
    static func split(_ text: Substring, portFrom lowest: UInt16) -> (host: String, port: UInt16)? {
        guard text.utf8.count <= 300, let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }), let port = UInt16(digits),
            port >= lowest
        else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard isIPv6(host) else { return nil }
        } else {
            let isName = host.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122, UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
            guard isName else { return nil }
        }
        return host.isEmpty ? nil : (String(host), port)
    }

    private static func isAddress(_ host: String) -> Bool {
        if host.utf8.contains(UInt8(ascii: ":")) { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4
            && parts.allSatisfy { part in
                !part.isEmpty && part.utf8.count <= 3 && part.utf8.allSatisfy { (48...57).contains($0) }
                    && UInt8(part) != nil && (part.utf8.count == 1 || !part.hasPrefix("0"))
            }
    }

    /// Close enough to keep mistakes out; `inet_pton` has the last word.
    private static func isIPv6(_ text: Substring) -> Bool {
        text.utf8.count >= 2 && text.utf8.count <= 45 && text.contains(":")
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...70, 97...102, UInt8(ascii: ":"), UInt8(ascii: "."): true
                default: false
                }
            }
    }
}
