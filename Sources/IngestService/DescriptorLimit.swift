import Glibc

/// How many descriptors this process may have; each connection takes one.
enum DescriptorLimit {
    /// What Kafka, files and the admin address need besides connections.
    static let reserve = 256

    /// Raises it as far as the system lets this process.
    ///
    /// - Returns: what it is now; nil if the system does not tell.
    static func raise() -> Int? {
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(files, &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(files, &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
