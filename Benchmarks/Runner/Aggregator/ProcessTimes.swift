import Foundation
import Glibc

/// CPU that processes used, from /proc.
enum ProcessTimes {
    /// Seconds of all threads, with the children that were collected; also of a process that has ended and was not
    /// collected yet. Nil where there is no such process.
    static func cpu(_ process: pid_t) -> Double? {
        stat(process)?.cpu
    }

    /// Of the server with all of its sessions and background processes, but for one session: whoever looks on. Looked at
    /// until no session ended meanwhile: one that is gone is counted by the server once it was collected, and before
    /// that by nobody, or twice.
    static func postgres(_ postmaster: pid_t, without onlooker: pid_t) -> Double {
        var last: (processes: Set<pid_t>, cpu: Double) = ([], .nan)
        for _ in 0..<50 {
            let now = look(postmaster, without: onlooker)
            if now.processes == last.processes { return now.cpu }
            last = now
            poll(nil, 0, 20)
        }
        return last.cpu
    }

    private static func look(_ postmaster: pid_t, without onlooker: pid_t) -> (processes: Set<pid_t>, cpu: Double) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        var processes: Set<pid_t> = []
        var total = 0.0
        for process in names.compactMap({ pid_t($0) }) where process != onlooker {
            guard let one = stat(process), process == postmaster || one.parent == postmaster else { continue }
            processes.insert(process)
            total += one.cpu
        }
        return (processes, total)
    }

    /// The most memory that the process had, in MiB.
    static func peakMebibytes(_ process: pid_t) -> Double {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0) / 1024
    }

    private static func stat(_ process: pid_t) -> (parent: pid_t, cpu: Double)? {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        else { return nil }
        // Behind the name: state, parent, …; user and system time, then those of collected children.
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 14, let parent = pid_t(fields[1]) else { return nil }
        let ticks = fields[11..<15].reduce(0) { $0 + (Double($1) ?? 0) }
        return (parent, ticks / Double(sysconf(Int32(_SC_CLK_TCK))))
    }
}
