import Foundation
import Glibc

/// A process that can't be mistaken for a later one with the same number: its pid and when the kernel started it.
public struct ProcessIdentity: Hashable, Codable, Sendable {
    public let pid: Int32
    /// Clock ticks since boot, from `/proc/PID/stat`.
    public let startTicks: UInt64

    public init(pid: Int32, startTicks: UInt64) {
        self.pid = pid
        self.startTicks = startTicks
    }

    /// Nil where no such process exists.
    public init?(pid: Int32) {
        guard let state = Self.stat(pid) else { return nil }
        self.init(pid: pid, startTicks: state.startTicks)
    }

    public static var current: ProcessIdentity {
        ProcessIdentity(pid: getpid()) ?? ProcessIdentity(pid: getpid(), startTicks: 0)
    }

    /// The very process still runs; a zombie does not count as running.
    public var isRunning: Bool {
        guard let state = Self.stat(pid) else { return false }
        return state.startTicks == startTicks && state.letter != "Z" && state.letter != "X"
    }

    /// Sends a signal, unless the process is gone or its number belongs to another one by now.
    @discardableResult
    public func send(_ signal: Int32) -> Bool {
        isRunning && kill(pid, signal) == 0
    }

    /// Waits until the process has ended; false after `seconds`.
    public func waitUntilGone(seconds: Double) -> Bool {
        let deadline = monotonicSeconds() + seconds
        while isRunning {
            guard monotonicSeconds() < deadline else { return false }
            usleep(20_000)
        }
        return true
    }

    private static func stat(_ pid: Int32) -> (letter: Character, startTicks: UInt64)? {
        guard pid > 0, let data = FileManager.default.contents(atPath: "/proc/\(pid)/stat") else { return nil }
        return parse(stat: String(decoding: data, as: UTF8.self))
    }

    /// The program's name stands in parentheses and may hold anything, so fields count from the last `)`.
    static func parse(stat text: String) -> (letter: Character, startTicks: UInt64)? {
        guard let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 19, let letter = fields[0].first, let ticks = UInt64(fields[19]) else { return nil }
        return (letter, ticks)
    }
}

/// Seconds of a clock that only moves forward.
public func monotonicSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
}
