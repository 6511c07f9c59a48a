import Glibc

/// Text for people before there is a log: usage and settings that are wrong.
public enum StandardError {
    /// Writes the text and a line's end; what can't be written is lost.
    public static func print(_ text: String) {
        var rest = Array(text.utf8)[...]
        rest.append(UInt8(ascii: "\n"))
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }
}
