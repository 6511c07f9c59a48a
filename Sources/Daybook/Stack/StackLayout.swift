import DevelopmentStack
import Domain
import Foundation

/// Where things of the local stack lie.
struct StackLayout {
    let folder: StateFolder

    func databaseLocation() throws -> PostgresClusterLocation {
        try PostgresClusterLocation.locate(stateFolder: folder.path, fallbackName: fallbackName)
    }

    /// Different for each state folder, and the same at each start.
    var fallbackName: String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in folder.path.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return "stack-" + String(hash, radix: 16)
    }
}

/// What a stack that was killed left running.
enum Leftovers {
    /// Stops it, and forgets the record. Only with the folder's lock in hand. Returns how many there were.
    static func stop(_ folder: StateFolder, _ note: (String) -> Void) throws -> Int {
        guard let record = try folder.record() else { return 0 }
        // PostgreSQL's own start and stop know how to deal with a left-over server.
        let processes = record.parts.filter { $0.name != "postgres" }.compactMap { part in
            part.process.flatMap { $0.isRunning ? (part.name, $0) : nil }
        }
        for (name, process) in processes {
            note("\(name) (pid \(process.pid)) of an earlier run is still there: stopping it")
            process.send(SIGTERM)
        }
        for (_, process) in processes where !process.waitUntilGone(seconds: 20) {
            process.send(SIGKILL)
            _ = process.waitUntilGone(seconds: 5)
        }
        folder.removeRecord()
        return processes.count
    }
}
