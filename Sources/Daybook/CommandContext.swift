import Glibc

/// What a command may use of the outside: the environment, the console, its own name and place.
struct CommandContext: Sendable {
    let environment: [String: String]
    let console: Console
    /// The absolute path of this program; the services' programs lie beside it.
    let executable: String
    let workingDirectory: String

    init(environment: [String: String], console: Console) {
        self.environment = environment
        self.console = console
        executable = Self.path(of: "/proc/self/exe") ?? "/usr/bin/daybook"
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let found = getcwd(&buffer, buffer.count) != nil
        workingDirectory = found ? text(buffer) : "/"
    }

    private static func path(of link: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = readlink(link, &buffer, Int(PATH_MAX))
        return count > 0 ? text(buffer) : nil
    }
}

private func text(_ buffer: [CChar]) -> String {
    let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    return String(decoding: bytes, as: UTF8.self)
}
