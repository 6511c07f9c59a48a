import Foundation
import Glibc
import TestSupport

/// The workers of a run, each behind a proxy of its own. Belongs to the nemesis' thread.
final class Workers {
    final class Slot {
        let number: Int
        /// For live partitions; some workers have one and some have two.
        let lanes: Int
        let proxy: DatabaseProxy
        fileprivate(set) var process: ServiceProcess?
        var isFrozen = false

        fileprivate init(_ number: Int, _ proxy: DatabaseProxy) {
            self.number = number
            lanes = 1 + number % 2
            self.proxy = proxy
        }

        var isRunning: Bool { process?.isRunning ?? false }
    }

    struct Counts {
        var started = 0
        var kills = 0
        var freezes = 0
        var stops = 0
        /// For how many seconds each of them took, of workers that were not frozen.
        var stopSeconds: [Double] = []
        /// When a lane of live partitions was given some.
        var assignedAt: [Double] = []
        /// How often a worker found a row elsewhere than where it had read it under the account's lock.
        var movedRows = 0
        /// Log lines of level error, by message.
        var errors: [String: Int] = [:]
        var unexpectedEnds: [String] = []

        /// Of the group that reads live partitions: what its members were told within a second and a half is one.
        var rebalances: Int {
            var count = 0
            var last = -Double.infinity
            for time in assignedAt.sorted() {
                if time > last + 1.5 { count += 1 }
                last = time
            }
            return max(0, count - 1)
        }
    }

    let slots: [Slot]
    private(set) var counts = Counts()
    private let environment: [String: String]
    private let databaseURL: @Sendable (UInt16) -> String

    /// - Parameters:
    ///   - number: of slots.
    ///   - environment: of every worker, without the database.
    ///   - upstream: PostgreSQL's port.
    ///   - databaseURL: the URL over a proxy's port.
    /// - Throws: when a proxy can't listen.
    init(
        _ number: Int,
        environment: [String: String],
        upstream: @escaping @Sendable () -> UInt16?,
        databaseURL: @escaping @Sendable (UInt16) -> String
    ) throws {
        self.environment = environment
        self.databaseURL = databaseURL
        slots = try (0..<number).map { Slot($0, try DatabaseProxy(upstream: upstream)) }
    }

    var running: [Slot] { slots.filter(\.isRunning) }

    func start(_ slot: Slot) throws {
        retire(slot)
        var environment = environment
        environment["DAYBOOK_DATABASE_URL"] = databaseURL(slot.proxy.port)
        environment["DAYBOOK_WORKER_LANES"] = "\(slot.lanes)"
        slot.process = try ServiceProcess("aggregator-worker", environment: environment)
        slot.isFrozen = false
        counts.started += 1
    }

    /// Starts workers in so many slots at least, and notes those that ended by themselves.
    func keep(_ wanted: Int) throws {
        for slot in slots {
            guard let process = slot.process, !process.isRunning else { continue }
            counts.unexpectedEnds.append(String(process.output.suffix(1500)))
            retire(slot)
        }
        for slot in slots where running.count < wanted && !slot.isRunning { try start(slot) }
    }

    func kill(_ slot: Slot) throws {
        guard let process = slot.process else { return }
        slot.proxy.disarm()
        try process.kill()
        counts.kills += 1
        retire(slot)
    }

    func freeze(_ slot: Slot) {
        slot.process?.send(SIGSTOP)
        slot.isFrozen = true
        counts.freezes += 1
    }

    func thaw(_ slot: Slot) {
        slot.process?.send(SIGCONT)
        slot.isFrozen = false
    }

    /// The longest that a worker may take to end after SIGTERM (C15).
    static let stopLimit = 15.0

    /// SIGTERM; it has to end by itself within its grace period, and is killed long after that.
    func stop(_ slot: Slot) throws {
        guard let process = slot.process else { return }
        // Before its first word it doesn't listen for signals: the time until then is none of the stop's.
        try Eventually.holds("worker \(slot.number) says something") { !process.output.isEmpty || !process.isRunning }
        // A frozen one hears of no signal. Nothing else excuses it: the promise holds with the broker down, with the
        // database down and in a rebalance, and what hangs longer than that hangs only while a fault is being played.
        let wasFrozen = slot.isFrozen
        let begun = Date()
        do {
            let status = try process.stop(seconds: 25)
            if status != 0 {
                counts.unexpectedEnds.append("exit \(status) after SIGTERM: \(process.output.suffix(1500))")
            }
        } catch {
            // Where it still runs, what is wrong is the time that it took.
            if !process.isRunning { counts.unexpectedEnds.append("\(error)") }
        }
        if !wasFrozen { counts.stopSeconds.append(Date().timeIntervalSince(begun)) }
        counts.stops += 1
        if process.isRunning { try process.kill() }
        retire(slot)
    }

    /// The end of the run.
    func end() {
        for slot in slots {
            if slot.isFrozen { thaw(slot) }
            try? slot.process?.kill()
            retire(slot)
            slot.proxy.stop()
        }
    }

    /// What a worker says whose batch met a row elsewhere than where it had read it: nobody but workers writes here.
    private static let movedRowMessage = "somebody writes to Daybook's tables without the accounts' locks"

    /// Reads what a worker wrote, and lets it go.
    private func retire(_ slot: Slot) {
        guard let process = slot.process else { return }
        slot.process = nil
        slot.isFrozen = false
        for line in process.output.split(separator: "\n") {
            if line.contains("\"\(Self.movedRowMessage)\"") { counts.movedRows += 1 }
            let isAssignment = line.contains("\"partitions assigned\"") && line.contains("\"live-")
            guard isAssignment || line.contains("\"level\":\"error\""),
                let object = (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any]
            else { continue }
            if isAssignment, let time = try? ModelDecoder.microseconds(object["time"] as? String) {
                counts.assignedAt.append(Double(time) / 1_000_000)
            } else if !isAssignment {
                counts.errors[object["message"] as? String ?? "unknown", default: 0] += 1
            }
        }
    }

    /// The last lines of all that run, for a failure's report.
    func tails(_ length: Int = 1500) -> String {
        slots.compactMap { slot in
            slot.process.map { "--- worker \(slot.number)\n\($0.output.suffix(length))" }
        }
        .joined(separator: "\n")
    }
}
