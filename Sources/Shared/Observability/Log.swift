import Glibc

/// Writes JSON lines: `{"time":…,"level":…,"service":…,"build":…,"message":…,"trace_id":…, metadata…}`.
///
/// The message is a constant, data stands in the metadata under keys of `LogKey`. A call below the level costs one
/// comparison: its metadata is never evaluated. A `Log` can be used by any number of threads.
public struct Log: Sendable {
    private let sink: any LogSink
    private let now: @Sendable () -> Int64
    private let head: [UInt8]
    private let context: [UInt8]
    public let level: LogLevel

    /// - Parameters:
    ///   - service: The program's name, as in `ingest-service`.
    ///   - level: What is below it is not written.
    ///   - build: What the line names as its build.
    ///   - sink: Where lines go.
    ///   - now: Microseconds since 1970, for the line's time.
    public init(
        service: StaticString,
        level: LogLevel = .info,
        build: BuildInfo = .current,
        sink: any LogSink = StandardErrorSink(),
        now: @escaping @Sendable () -> Int64 = { Log.systemMicroseconds() }
    ) {
        var line = LogLine()
        line.append("service", .constant(StaticText(service)))
        line.append("build", .constant(build.version))
        self.init(sink: sink, now: now, head: line.bytes, context: [], level: level)
    }

    private init(
        sink: any LogSink,
        now: @escaping @Sendable () -> Int64,
        head: [UInt8],
        context: [UInt8],
        level: LogLevel
    ) {
        self.sink = sink
        self.now = now
        self.head = head
        self.context = context
        self.level = level
    }

    /// A log that writes nothing, for code that is called without one.
    public static let disabled = Log(service: "none", level: .error, sink: NoSink())

    /// A log whose every line also carries these.
    public func with(_ metadata: KeyValuePairs<LogKey, LogValue>) -> Log {
        var line = LogLine()
        line.append(fields: context)
        for (key, value) in metadata { line.append(key.name.description, value) }
        return Log(sink: sink, now: now, head: head, context: line.bytes, level: level)
    }

    /// A log whose every line names the trace that it belongs to: the 32 hexadecimal digits of a `traceparent`.
    public func with(traceID: String) -> Log {
        var line = LogLine()
        line.append(fields: context)
        line.append("trace_id", .text(traceID))
        return Log(sink: sink, now: now, head: head, context: line.bytes, level: level)
    }

    public func isEnabled(_ level: LogLevel) -> Bool {
        level >= self.level
    }

    @inlinable
    public func debug(
        _ message: StaticString,
        _ metadata: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]
    ) {
        if isEnabled(.debug) { write(.debug, message, metadata()) }
    }

    @inlinable
    public func info(
        _ message: StaticString,
        _ metadata: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]
    ) {
        if isEnabled(.info) { write(.info, message, metadata()) }
    }

    @inlinable
    public func warning(
        _ message: StaticString,
        _ metadata: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]
    ) {
        if isEnabled(.warning) { write(.warning, message, metadata()) }
    }

    @inlinable
    public func error(
        _ message: StaticString,
        _ metadata: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]
    ) {
        if isEnabled(.error) { write(.error, message, metadata()) }
    }

    /// Writes a line whatever the level; the calls named after levels are the usual way.
    public func write(_ level: LogLevel, _ message: StaticString, _ metadata: KeyValuePairs<LogKey, LogValue>) {
        var line = LogLine()
        line.open()
        line.append("time", time: now())
        line.append("level", .constant(StaticText(level.name)))
        line.append(fields: head)
        line.append("message", .constant(StaticText(message)))
        line.append(fields: context)
        for (key, value) in metadata { line.append(key.name.description, value) }
        line.close()
        sink.write(line.bytes)
    }

    /// The system's clock, in microseconds since 1970.
    public static func systemMicroseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}

private struct NoSink: LogSink {
    func write(_ line: [UInt8]) {}
}
