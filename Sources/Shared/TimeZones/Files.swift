import Glibc

/// A small regular file's bytes; nil if there is none or it is larger than the limit.
func readFile(_ path: String, limit: Int) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    while bytes.count <= limit {
        var chunk: InlineArray<4096, UInt8> = InlineArray(repeating: 0)
        var span = chunk.mutableSpan
        let count = span.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count >= 0 else { return nil }
        guard count > 0 else { return bytes }
        for index in 0..<count { bytes.append(chunk[index]) }
    }
    return nil
}

func environmentValue(_ name: String) -> String? {
    guard let value = getenv(name), value.pointee != 0 else { return nil }
    return String(cString: value)
}
