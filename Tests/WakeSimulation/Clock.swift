import Domain
import WakeRules

/// The database's clock, and what workers make of it when it jumps. The door and the workers of days have another one.
extension WakeSimulation {
    /// The clock is five hours slow. From the twelfth day on, for a day and a half; the wake workers' machines with it.
    var slow: Range<Int64> { start + 11 * Self.day..<start + 12 * Self.day + 12 * Self.hour }
    static let slowness = 5 * hour

    /// What the database's clock says.
    func clock(_ time: Int64) -> Int64 { slow.contains(time) ? time - Self.slowness : time }

    /// A look of a worker's, at every turn. Returns whether the clock is one to decide by.
    mutating func watchClock(_ worker: Int, _ now: Int64) -> Bool {
        guard settings.mistake != .ignoresClock else { return true }
        let boot = (now - start) * 1000
        if let (jump, lastSeen) = watches[worker].look(Instant(microseconds: clock(now)), between: boot, and: boot) {
            report.jumps += 1
            note(jump, lastSeen)
        }
        return watches[worker].isSteady(at: boot)
    }

    /// As the database does it, for all workers.
    private mutating func note(_ jump: ClockJump, _ lastSeen: Instant) {
        guard let held = clockJump else {
            if jump.by > 0 { clockJump = jump }
            return
        }
        if jump.by > 0 {
            if held.end <= lastSeen { clockJump = jump }
        } else if held.end > jump.end {
            clockJump = ClockJump(
                through: held.through,
                by: max(0, jump.end.microseconds - held.through.microseconds)
            )
        }
    }
}
