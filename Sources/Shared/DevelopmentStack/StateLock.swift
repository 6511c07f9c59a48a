import Foundation
import Glibc

/// Says that a `daybook up` runs in a state folder. The kernel lets go of it when the process ends, however it ends.
public final class StateLock: Sendable {
    private let descriptor: Int32

    private init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// Takes the lock, or says who holds it: pid, since when, and at which addresses.
    public static func take(_ folder: StateFolder) throws(StackFailure) -> StateLock {
        let descriptor = open(folder.lockPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            throw .system(
                errno,
                "can't open \(folder.lockPath)",
                elsewhere: "Set DAYBOOK_STATE to a folder that you may write to."
            )
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw alreadyRunning(folder)
        }
        return StateLock(descriptor: descriptor)
    }

    /// Whether somebody holds the lock now.
    public static func isHeld(_ folder: StateFolder) -> Bool {
        let descriptor = open(folder.lockPath, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        // Closing lets go of it at once.
        defer { close(descriptor) }
        return flock(descriptor, LOCK_EX | LOCK_NB) != 0
    }

    private static func alreadyRunning(_ folder: StateFolder) -> StackFailure {
        let next = "`daybook status` shows its parts, `daybook down` stops it, DAYBOOK_STATE names another folder."
        guard let record = try? folder.record() else {
            return StackFailure(.alreadyRunning, "another `daybook up` is starting in \(folder.path)", next: next)
        }
        let addresses = record.parts.compactMap { part in part.address.map { "\(part.name) \($0)" } }
        return StackFailure(
            .alreadyRunning,
            "`daybook up` already runs in \(folder.path): pid \(record.supervisor.pid), since \(record.startedAt)"
                + (addresses.isEmpty ? "" : ", " + addresses.joined(separator: ", ")),
            next: next
        )
    }
}
