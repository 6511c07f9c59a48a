import Glibc

/// Finds TCP ports on 127.0.0.1.
public enum PortChoice {
    /// The first free port from `preferred` on, at most `attempts` further; nil where all are taken.
    public static func next(from preferred: UInt16, attempts: Int, isFree: (UInt16) -> Bool) -> UInt16? {
        for offset in 0..<max(1, attempts) {
            guard let port = UInt16(exactly: Int(preferred) + offset) else { return nil }
            if isFree(port) { return port }
        }
        return nil
    }

    /// Nobody listens there now. (Somebody may a moment later: the part that binds it says so itself.)
    public static func isFree(_ port: UInt16) -> Bool {
        bound(port) != nil
    }

    /// A port that the kernel gives out.
    public static func any() -> UInt16? {
        bound(0)
    }

    /// The wished port if it is free, else one that the kernel gives out. Somebody may take it before it is used, so its
    /// user has to be ready to ask again.
    static func any(preferring wished: UInt16?) -> UInt16? {
        wished.flatMap(bound) ?? any()
    }

    /// Binds and lets go; the port that was had.
    private static func bound(_ port: UInt16) -> UInt16? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // As servers do, so that a port whose connections linger in TIME_WAIT counts as free.
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                guard bind(descriptor, generic, length) == 0, listen(descriptor, 1) == 0,
                    getsockname(descriptor, generic, &length) == 0
                else { return nil }
                return UInt16(bigEndian: pointer.pointee.sin_port)
            }
        }
    }
}
