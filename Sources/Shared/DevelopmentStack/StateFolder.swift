import Foundation
import Glibc

/// The folder where the local stack keeps what it made: addresses, secrets, logs, data.
///
///     .daybook/
///       lock          held while a `daybook up` runs (flock), so it can't go stale
///       stack.json    StackRecord
///       secrets/      0600, generated once
///       logs/         one file a part
public struct StateFolder: Hashable, Sendable {
    public let path: String

    public init(path: String) {
        self.path = path
    }

    /// `DAYBOOK_STATE`, else `.daybook` in the checkout that holds the working directory or this program.
    public static func locate(
        environment: [String: String],
        workingDirectory: String,
        executable: String
    ) -> StateFolder {
        if let path = environment["DAYBOOK_STATE"], !path.isEmpty {
            let absolute = path.hasPrefix("/") ? path : workingDirectory + "/" + path
            return StateFolder(path: URL(fileURLWithPath: absolute).standardizedFileURL.path)
        }
        let start = [workingDirectory, URL(fileURLWithPath: executable).deletingLastPathComponent().path]
        for folder in start.compactMap({ checkout(above: $0) }) {
            return StateFolder(path: folder + "/.daybook")
        }
        return StateFolder(path: workingDirectory + "/.daybook")
    }

    /// The nearest folder upwards that is a checkout of Daybook or holds a state folder already.
    private static func checkout(above path: String) -> String? {
        var folder = URL(fileURLWithPath: path).standardizedFileURL
        let files = FileManager.default
        while true {
            let hasState = files.fileExists(atPath: folder.path + "/.daybook/stack.json")
            let isCheckout =
                files.fileExists(atPath: folder.path + "/Package.swift")
                && files.fileExists(atPath: folder.path + "/Sources/Daybook")
            if hasState || isCheckout { return folder.path }
            let parent = folder.deletingLastPathComponent()
            guard parent.path != folder.path, folder.path != "/" else { return nil }
            folder = parent
        }
    }

    public var logsPath: String { path + "/logs" }
    public var secretsPath: String { path + "/secrets" }
    public var recordPath: String { path + "/stack.json" }
    public var lockPath: String { path + "/lock" }

    public func logPath(_ part: String) -> String { logsPath + "/\(part).log" }

    public var exists: Bool { FileManager.default.fileExists(atPath: path) }

    /// Makes the folder and what belongs into it; nothing happens where it is all there.
    ///
    /// The folder itself can be entered by others (PostgreSQL may run as another user), the secrets can't.
    public func create() throws(StackFailure) {
        try makeDirectory(path, mode: 0o755)
        try makeDirectory(logsPath, mode: 0o755)
        try makeDirectory(secretsPath, mode: 0o700)
        // So that a checkout's `git status` stays clean even where nobody ignores the folder.
        let ignore = path + "/.gitignore"
        if !FileManager.default.fileExists(atPath: ignore) { try write("*\n", to: ignore, mode: 0o644) }
    }

    /// The record of the stack that runs here, or that ran here and did not clean up.
    public func record() throws(StackFailure) -> StackRecord? {
        guard let data = FileManager.default.contents(atPath: recordPath) else { return nil }
        do {
            return try JSONDecoder().decode(StackRecord.self, from: data)
        } catch {
            throw StackFailure(
                .unreadableState,
                "\(recordPath) is not a record of this build",
                next: "If no `daybook up` is running, remove that file and start again."
            )
        }
    }

    public func write(_ record: StackRecord) throws(StackFailure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(record) else { return }
        try write(String(decoding: data, as: UTF8.self) + "\n", to: recordPath, mode: 0o644)
    }

    public func removeRecord() {
        unlink(recordPath)
    }

    /// The secret of this name, generated at its first use: 48 hexadecimal digits from the kernel, in a 0600 file.
    ///
    /// - Returns: the file's path; what is in it is for the part that needs it.
    public func secret(_ name: String) throws(StackFailure) -> String {
        let file = secretsPath + "/" + name
        if let data = FileManager.default.contents(atPath: file), data.count >= 32 { return file }
        var kernel = SystemRandomNumberGenerator()
        let bytes = (0..<24).map { _ in UInt8.random(in: 0...255, using: &kernel) }
        let digits = Array("0123456789abcdef")
        try write(String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }), to: file, mode: 0o600)
        return file
    }

    /// Removes the folder and all that is in it.
    public func remove() throws(StackFailure) {
        guard exists else { return }
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            throw StackFailure(
                .noPermission,
                "can't remove \(path): \(error.localizedDescription)",
                next: "Remove it as the user who owns it."
            )
        }
    }

    /// Logs of earlier runs are of no use to a fresh start.
    public func removeLogs() {
        try? FileManager.default.removeItem(atPath: logsPath)
    }

    private func makeDirectory(_ path: String, mode: mode_t) throws(StackFailure) {
        if mkdir(path, mode) == 0 { return }
        if errno == ENOENT {
            let parent = URL(fileURLWithPath: path).deletingLastPathComponent().path
            guard parent != path, parent != "/" else { throw failure("make the folder", path, errno) }
            try makeDirectory(parent, mode: 0o755)
            if mkdir(path, mode) == 0 { return }
        }
        guard errno == EEXIST else { throw failure("make the folder", path, errno) }
    }

    /// Writes beside the file and renames, so that no reader sees half of it.
    private func write(_ text: String, to file: String, mode: mode_t) throws(StackFailure) {
        let draft = file + ".new"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw failure("write", file, errno) }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0,
            rename(draft, file) == 0
        else {
            let code = errno
            unlink(draft)
            throw failure("write", file, code)
        }
    }

    private func failure(_ verb: String, _ path: String, _ code: Int32) -> StackFailure {
        .system(code, "can't \(verb) \(path)", elsewhere: "Set DAYBOOK_STATE to a folder that you may write to.")
    }
}

extension StackFailure {
    /// A failed system call in words; a full disk and missing rights have ways out of their own.
    static func system(_ code: Int32, _ message: String, elsewhere: String) -> StackFailure {
        let reason = String(cString: strerror(code))
        switch code {
        case ENOSPC, EDQUOT:
            return StackFailure(
                .noSpace,
                "\(message): the disk is full",
                next: "Free some space (`df -h` shows where), or \(elsewhere.lowercasingFirst)"
            )
        case EACCES, EPERM, EROFS:
            return StackFailure(.noPermission, "\(message): \(reason)", next: elsewhere)
        default:
            return StackFailure(.cannotCreate, "\(message): \(reason)", next: elsewhere)
        }
    }
}

extension String {
    var lowercasingFirst: String { prefix(1).lowercased() + dropFirst() }
}
