import Glibc

/// Files that hold a person's health.
enum PrivateFile {
    /// Never over a file that is there, and for nobody else to read.
    static func write(_ text: String, to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                .cannotCreate,
                errno == EEXIST ? "\(path) exists already" : "\(path) can't be made (errno \(errno))",
                next: "Name another file."
            )
        }
        defer { close(descriptor) }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else {
                throw CommandFailure(.cannotCreate, "\(path) could not be written", next: "Is the disk full?")
            }
            bytes = bytes.dropFirst(count)
        }
    }
}
