import Foundation
import Glibc

/// SIGINT, SIGTERM and SIGHUP as something to wait for, instead of something that interrupts.
///
/// Make it on the main thread before other threads start: they inherit that the signals are blocked.
public struct StopSignals {
    private var set = sigset_t()

    public init() {
        sigemptyset(&set)
        for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&set, signal) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// The signal that came, or nil after that many milliseconds.
    public func wait(milliseconds: Int) -> Int32? {
        var limit = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        var set = set
        let signal = sigtimedwait(&set, nil, &limit)
        return signal > 0 ? signal : nil
    }
}

func fileExists(_ path: String) -> Bool { access(path, F_OK) == 0 }

func removeFile(_ path: String) { unlink(path) }
