import Glibc

/// The bytes of a file of up to a mebibyte; nil if it can't be read. Never blocks on what is no file.
func readSmallFile(_ path: String) -> [UInt8]? {
    let longest = 1 << 20
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16 << 10)
    while true {
        let count = read(file, &chunk, chunk.count)
        if count < 0, errno == EINTR { continue }
        guard count >= 0 else { return nil }
        guard count > 0 else { return bytes }
        bytes.append(contentsOf: chunk[..<count])
        guard bytes.count <= longest else { return nil }
    }
}
