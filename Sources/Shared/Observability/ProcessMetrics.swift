import Glibc

/// What Prometheus expects of every process, under the customary names.
public enum ProcessMetrics {
    public static let processorSeconds = MetricDescription(
        "process_cpu_seconds_total",
        .counter,
        help: "Processor time used, in seconds."
    )
    public static let residentMemory = MetricDescription(
        "process_resident_memory_bytes",
        .gauge,
        help: "Resident memory, in bytes."
    )
    public static let startTime = MetricDescription(
        "process_start_time_seconds",
        .gauge,
        help: "When this process registered its metrics, in seconds since 1970."
    )

    public static let all = [processorSeconds, residentMemory, startTime]

    /// Call it once, when the program starts.
    public static func register(in registry: MetricsRegistry) {
        registry.counter(processorSeconds) { seconds(CLOCK_PROCESS_CPUTIME_ID) }
        registry.gauge(residentMemory) { residentBytes() }
        registry.gauge(startTime).set(seconds(CLOCK_REALTIME))
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private static func residentBytes() -> Double? {
        let file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 128)
        let count = read(file, &bytes, bytes.count)
        guard count > 0 else { return nil }
        // The second number is the resident pages.
        let numbers = String(decoding: bytes[..<count], as: UTF8.self).split(separator: " ")
        guard numbers.count > 1, let pages = Double(numbers[1]) else { return nil }
        return pages * Double(sysconf(Int32(_SC_PAGESIZE)))
    }
}
