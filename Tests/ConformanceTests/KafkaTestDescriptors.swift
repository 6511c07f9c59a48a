import Glibc

/// Waits until the descriptor is readable, or the time is up.
@discardableResult
func waitReadable(_ descriptor: Int32, milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return Glibc.poll(&entry, 1, milliseconds) > 0
}

/// Open descriptors and threads of this process.
func processResources() -> (descriptors: Int, threads: Int) {
    (entries("/proc/self/fd"), entries("/proc/self/task"))
}

func wallMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}

private func entries(_ path: String) -> Int {
    guard let directory = opendir(path) else { return 0 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    return count
}
