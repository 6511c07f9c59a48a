import Glibc

/// Something that the supervisor runs. Used from the supervisor's thread only.
public protocol StackPart: AnyObject {
    var name: String { get }
    /// Parts of a lower stage are started earlier and stopped later.
    var stage: Int { get }
    /// `host:port` to show; nil for a part that nobody talks to.
    var address: String? { get }
    var adminAddress: String? { get }
    var logPath: String { get }
    var process: ProcessIdentity? { get }

    func start() throws(StackFailure)
    /// Nil while it runs; may be asked again after it ended.
    func poll() -> ProcessEnd?
    /// Must answer within about a second.
    func isReady() -> Bool
    func terminate()
    func kill()
}

/// What the supervisor tells people.
public enum StackEvent: Sendable {
    case starting(part: String)
    case ready(part: String, address: String?, seconds: Double)
    case crashed(part: String, how: String, restartIn: Double, logPath: String)
    case stopping(part: String)
    case stopped(part: String)
    case killed(part: String)
}

/// Runs parts: starts them stage by stage, restarts what crashes, stops them in reverse. The decisions are
/// `PartStateMachine`'s; this is the thin driver. Use from one thread.
public final class Supervisor {
    private struct Entry {
        let part: any StackPart
        var machine: PartStateMachine
        var lastEnd = "ended"
        /// What the part itself says of a start that failed.
        var startFailure: StackFailure?
        var nextProbe = 0.0
        /// Killed because its start took too long.
        var isStuck = false
    }

    private let policy: SupervisionPolicy
    private let report: (StackEvent) -> Void
    /// Called when a part was started, became ready or ended: its pid may be another.
    public var onChange: () -> Void = {}
    private var entries: [Entry] = []
    private var failure: StackFailure?

    public init(policy: SupervisionPolicy = SupervisionPolicy(), report: @escaping (StackEvent) -> Void) {
        self.policy = policy
        self.report = report
    }

    public var parts: [any StackPart] { entries.map(\.part) }

    /// Starts parts at once, and returns when all of them are ready.
    ///
    /// `pause` waits a few hundredths of a second between two looks, and throws to give up (a signal came). Throws what
    /// `pause` throws, or a `StackFailure` where a part ended before it was ready.
    public func start(_ parts: [any StackPart], pause: () throws -> Void) throws {
        let first = entries.count
        for part in parts {
            entries.append(Entry(part: part, machine: PartStateMachine(policy: policy)))
            perform(entries[entries.count - 1].machine.start(at: monotonicSeconds()), entries.count - 1)
        }
        while !entries[first...].allSatisfy(\.machine.isRunning) {
            step()
            if let failure { throw failure }
            try pause()
        }
    }

    /// Looks once at every part: collects what ended, restarts, notices who is ready. Returns at once.
    public func step() {
        for index in entries.indices {
            let now = monotonicSeconds()
            if !entries[index].machine.isStopped, let status = entries[index].part.poll() {
                entries[index].lastEnd = entries[index].isStuck ? stuckWords : words(status, index)
                entries[index].isStuck = false
                if case .failed(let reason) = status {
                    let next = "The log is \(entries[index].part.logPath)."
                    let code: StackFailure.Code = reason.contains("disk is full") ? .noSpace : .notReady
                    entries[index].startFailure = StackFailure(code, reason, next: next)
                }
                perform(entries[index].machine.ended(at: now), index)
            } else if entries[index].machine.awaitsReadiness, now >= entries[index].nextProbe {
                entries[index].nextProbe = now + 0.1
                if entries[index].part.isReady() {
                    perform(entries[index].machine.becameReady(at: monotonicSeconds()), index)
                }
            }
            perform(entries[index].machine.tick(at: monotonicSeconds()), index)
        }
    }

    /// Stops everything, the last stage first; returns when nothing runs any more.
    ///
    /// - Parameters:
    ///   - isHurried: asked between two looks; true ends the grace period.
    ///   - pause: waits a few hundredths of a second.
    public func stopAll(isHurried: () -> Bool, pause: () -> Void) {
        for stage in Set(entries.map(\.part.stage)).sorted(by: >) {
            let members = entries.indices.filter { entries[$0].part.stage == stage }
            for index in members { perform(entries[index].machine.stop(at: monotonicSeconds()), index) }
            while !members.allSatisfy({ entries[$0].machine.isStopped }) {
                step()
                if isHurried() {
                    for index in members { perform(entries[index].machine.hurry(), index) }
                }
                pause()
            }
        }
    }

    private func perform(_ action: PartStateMachine.Action, _ index: Int) {
        let part = entries[index].part
        switch action {
        case .none: return
        case .start:
            report(.starting(part: part.name))
            do throws(StackFailure) {
                try part.start()
            } catch {
                entries[index].lastEnd = error.message
                let next = entries[index].machine.ended(at: monotonicSeconds())
                if next == .giveUp { failure = error } else { perform(next, index) }
            }
        case .announceReady(let seconds):
            let address = part.address ?? part.adminAddress.map { "admin \($0)" }
            report(.ready(part: part.name, address: address, seconds: seconds))
        case .announceCrash(let delay):
            let how = entries[index].lastEnd
            report(.crashed(part: part.name, how: how, restartIn: delay, logPath: part.logPath))
        case .giveUp:
            failure =
                failure ?? entries[index].startFailure
                ?? StackFailure(
                    .notReady,
                    "\(part.name) \(entries[index].lastEnd)" + lastLine(of: part.logPath),
                    next: "Its log says why: \(part.logPath)"
                )
        case .terminate:
            report(.stopping(part: part.name))
            part.terminate()
        case .kill:
            entries[index].isStuck = entries[index].machine.state == .killing
            report(.killed(part: part.name))
            part.kill()
        case .announceStopped: report(.stopped(part: part.name))
        }
        onChange()
    }

    private func words(_ status: ProcessEnd, _ index: Int) -> String {
        entries[index].machine.awaitsReadiness ? "\(status) before it was ready" : status.description
    }

    private var stuckWords: String { "was not ready after \(Int(policy.startLimit)) s and was killed" }

    private func lastLine(of path: String) -> String {
        guard let line = LogFile(path: path).lastLines(1).first else { return "" }
        return ": " + line
    }
}
