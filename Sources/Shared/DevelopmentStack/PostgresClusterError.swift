/// Why a private cluster cannot be made or started, with what to do about it.
public struct PostgresClusterError: Error, CustomStringConvertible {
    public let description: String

    init(_ description: String) {
        self.description = description
    }

    static let packageHint = "install Debian's package postgresql-15 (Scripts/install-packages does it)"

    /// Reads the reason out of the last lines of the server's (or initdb's) own words.
    static func failedStart(of what: String, tail: String, log: String?) -> PostgresClusterError {
        let causes: [(String, String)] = [
            ("Address already in use", "its port is taken by another program"),
            ("No space left on device", "the disk is full: free some space and start again"),
            ("Disk quota exceeded", "the disk quota is used up: free some space and start again"),
            ("wrong ownership", "its data belongs to another user: start as that user, or use --fresh"),
            ("Permission denied", "a file or folder may not be used by this user: check the owner of the state folder"),
            ("database files are incompatible", "its data was made by another PostgreSQL release: install that one"),
            ("shared memory", "there is too little shared memory: enlarge /dev/shm (docker: --shm-size=256m)"),
            ("PANIC", "its data is damaged: start with --fresh, or restore a copy"),
        ]
        let cause = causes.first { tail.contains($0.0) }?.1
        var text = "\(what) did not start"
        if let cause { text += ": \(cause)" }
        if let log { text += "\nlog: \(log)" }
        if !tail.isEmpty {
            text += "\nits last lines:\n" + tail.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n")
        }
        return PostgresClusterError(text)
    }
}
