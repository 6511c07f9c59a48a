import Foundation
import Glibc

/// Starting programs, as the `postgres` user when we are root: PostgreSQL refuses to run as root.
enum PostgresClusterProcess {
    static var isRoot: Bool { geteuid() == 0 }

    /// The user that the server runs as.
    static func serverUser() throws -> (uid: uid_t, gid: gid_t) {
        guard isRoot else { return (geteuid(), getegid()) }
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16_384)
        guard getpwnam_r("postgres", &entry, &buffer, buffer.count, &found) == 0, found != nil else {
            throw PostgresClusterError(
                "PostgreSQL does not run as root and there is no user postgres: " + PostgresClusterError.packageHint
            )
        }
        return (entry.pw_uid, entry.pw_gid)
    }

    /// Prefixes a command so that it runs as the server's user.
    static func asServerUser(_ arguments: [String]) throws -> [String] {
        guard isRoot else { return arguments }
        let user = try serverUser()
        return ["/usr/bin/setpriv", "--reuid", "\(user.uid)", "--regid", "\(user.gid)", "--init-groups", "--"]
            + arguments
    }

    /// Runs a short command to its end and gives back what it wrote.
    static func run(_ arguments: [String]) -> (status: Int32, output: String) {
        guard let channel = makeChannel() else { return (-1, "no file descriptors left") }
        defer { close(channel.ours) }
        let child = spawn(arguments, input: nil, output: channel.theirs)
        close(channel.theirs)
        guard let child else { return (-1, "\(arguments[0]) cannot be run") }
        var output: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(channel.ours, &buffer, buffer.count)
            if count > 0 {
                output += buffer[..<count]
            } else if count == 0 || errno != EINTR {
                break
            }
        }
        return (wait(for: child), String(decoding: output, as: UTF8.self))
    }

    /// Two connected ends that no other child inherits, not even one that another thread starts right now.
    static func makeChannel() -> (ours: Int32, theirs: Int32)? {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        return socketpair(AF_UNIX, type, 0, &ends) == 0 ? (ends[0], ends[1]) : nil
    }

    /// The exit status, or 128 + the signal.
    static func wait(for child: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0 {
            guard errno == EINTR else { return -1 }
        }
        return status & 0x7f == 0 ? status >> 8 & 0xff : 128 + (status & 0x7f)
    }

    /// Starts a program in a session of its own (a Ctrl-C in the terminal must not reach it), in `/`, with the signals'
    /// defaults and a small environment.
    static func spawn(_ arguments: [String], input: Int32?, output: Int32) -> pid_t? {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_adddup2(&actions, output, 2)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        let setSession: Int32 = 0x80  // POSIX_SPAWN_SETSID
        posix_spawnattr_setflags(
            &attributes,
            Int16(truncatingIfNeeded: setSession | Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF))
        )

        var argv: [UnsafeMutablePointer<CChar>?] =
            (["/usr/bin/env", "-C", "/"] + arguments).map { (word: String) in strdup(word) } + [nil]
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        var environment: [UnsafeMutablePointer<CChar>?] =
            ["PATH=" + path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/"].map { (line: String) in strdup(line) } + [nil]
        defer { for pointer in argv + environment { free(pointer) } }
        var child: pid_t = 0
        guard posix_spawn(&child, "/usr/bin/env", &actions, &attributes, &argv, &environment) == 0 else { return nil }
        return child
    }
}
