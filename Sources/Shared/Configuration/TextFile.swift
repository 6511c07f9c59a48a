import Glibc

/// Reads the small text files that settings come from.
enum TextFile {
    enum Failure: Error {
        case cannotOpen
        case cannotRead
        case tooLong
        case notText
    }

    static let longest = 1 << 20

    static func read(_ path: String) throws(Failure) -> String {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw .cannotOpen }
        defer { close(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let room = chunk.count
            let count = unsafe Glibc.read(file, &chunk, room)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .cannotRead }
            guard count > 0 else { break }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= longest else { throw .tooLong }
        }
        guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else { throw .notText }
        return text
    }

    static func explain(_ failure: Failure) -> String {
        switch failure {
        case .cannotOpen: "names a file that can't be opened: check the path and its permissions"
        case .cannotRead: "names a file that can't be read: is it a folder?"
        case .tooLong: "names a file longer than a mebibyte"
        case .notText: "names a file that is not UTF-8 text"
        }
    }
}

/// The environment that this process was started with.
public enum Environment {
    /// Later `setenv` calls don't show: settings are what the process was given.
    public static func current() -> [String: String] {
        let file = unsafe open("/proc/self/environ", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [:] }
        defer { close(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let room = chunk.count
            let count = unsafe read(file, &chunk, room)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes.append(contentsOf: chunk[..<count])
        }
        return parse(bytes)
    }

    static func parse(_ bytes: [UInt8]) -> [String: String] {
        var variables: [String: String] = [:]
        for entry in bytes.split(separator: 0) {
            guard let equals = entry.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let key = String(decoding: entry[..<equals], as: UTF8.self)
            // The first of two wins, as with getenv.
            guard variables[key] == nil else { continue }
            variables[key] = String(decoding: entry[(equals + 1)...], as: UTF8.self)
        }
        return variables
    }
}
