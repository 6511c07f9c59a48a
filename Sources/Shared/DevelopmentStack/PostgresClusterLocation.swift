import Foundation
import Glibc

/// Where a cluster lives: in the state folder, or, where the `postgres` user cannot get there (a checkout under root's
/// home), under /var/lib/daybook with a link in the state folder.
public struct PostgresClusterLocation: Sendable {
    /// The cluster's own folder; holds data, log and socket.
    public let directory: String
    /// Readable by the caller alone.
    public let passwordFile: String
    /// The link that leads to `directory`, if it lives elsewhere.
    public let link: String?

    /// One line for the user when the data does not live in the state folder.
    public var note: String? {
        link.map { "the postgres user cannot reach \($0), so the data lives in \(directory)" }
    }

    /// Finds the place for a cluster, and makes the folders on the way to it.
    ///
    /// - Parameters:
    ///   - stateFolder: an absolute path, made if it is missing.
    ///   - fallbackName: the name under /var/lib/daybook; one for each state folder.
    /// - Returns: the place; the cluster itself need not exist.
    /// - Throws: `PostgresClusterError` when a folder cannot be made, or is no folder.
    public static func locate(stateFolder: String, fallbackName: String) throws -> PostgresClusterLocation {
        try makeFolder(stateFolder)
        let inside = stateFolder + "/postgres"
        let passwordFile = stateFolder + "/postgres.password"
        if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: inside) {
            try makeFolder((target as NSString).deletingLastPathComponent)
            return PostgresClusterLocation(directory: target, passwordFile: passwordFile, link: inside)
        }
        if try FileManager.default.fileExists(atPath: inside) || canServerReach(stateFolder) {
            return PostgresClusterLocation(directory: inside, passwordFile: passwordFile, link: nil)
        }
        guard !fallbackName.isEmpty, !fallbackName.contains("/"), !fallbackName.hasPrefix(".") else {
            throw PostgresClusterError("\"\(fallbackName)\" cannot be the name of a folder under /var/lib/daybook")
        }
        let target = "/var/lib/daybook/\(fallbackName)/postgres"
        try makeFolder("/var/lib/daybook/\(fallbackName)")
        guard symlink(target, inside) == 0 else {
            throw PostgresClusterError("cannot make the link \(inside): \(String(cString: strerror(errno)))")
        }
        return PostgresClusterLocation(directory: target, passwordFile: passwordFile, link: inside)
    }

    /// Asks by trying, so that ACLs and mount options count too.
    private static func canServerReach(_ folder: String) throws -> Bool {
        guard PostgresClusterProcess.isRoot else { return true }
        let command = try PostgresClusterProcess.asServerUser(["/bin/sh", "-c", "cd \"$1\"", "sh", folder])
        return PostgresClusterProcess.run(command).status == 0
    }

    private static func makeFolder(_ path: String) throws {
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o755]
            )
        } catch {
            throw PostgresClusterError(
                "cannot make the folder \(path): \(error.localizedDescription). Set DAYBOOK_STATE to a folder that "
                    + "you may write to"
            )
        }
    }

    /// Removes the cluster's files, the link and the password; the server must be stopped.
    public func removeAll() throws {
        for path in [directory, link, passwordFile].compactMap({ $0 })
        where (try? FileManager.default.attributesOfItem(atPath: path)) != nil {
            do {
                try FileManager.default.removeItem(atPath: path)
            } catch {
                throw PostgresClusterError("cannot remove \(path): \(error.localizedDescription)")
            }
        }
        if link != nil {
            // Fails, as it should, where something else is in there.
            rmdir((directory as NSString).deletingLastPathComponent)
            rmdir("/var/lib/daybook")
        }
    }
}
