import Glibc

/// A file that holds a person's health: it never takes the place of another, and only its maker can read it.
final class PrivateFile {
    private let path: String
    private var descriptor: Int32
    private var waiting: [UInt8] = []

    /// Makes it.
    ///
    /// - Throws: where there is one of that name, or none can be made.
    init(_ path: String) throws {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                .cannotCreate,
                errno == EEXIST ? "\(path) exists already" : "\(path) can't be made (errno \(errno))",
                next: "Name another file."
            )
        }
    }

    deinit {
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    func write(_ text: String) throws {
        waiting += text.utf8
        if waiting.count >= 65_536 { try flush() }
    }

    func close() throws {
        try flush()
        Glibc.close(descriptor)
        descriptor = -1
    }

    private func flush() throws {
        var start = 0
        while start < waiting.count {
            let count = waiting[start...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else {
                throw CommandFailure(.cannotCreate, "\(path) could not be written", next: "Is the disk full?")
            }
            start += count
        }
        waiting.removeAll(keepingCapacity: true)
    }
}
