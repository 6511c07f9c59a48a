/// The name of one piece of data in a log line. Keys are constants: those that several modules use stand here, a
/// module's own in one `extension LogKey` of that module.
///
/// No key may carry a health value, a token, a JWT or any payload; ids, counts, times and places are what logs hold.
public struct LogKey: Hashable, Sendable {
    public let name: StaticText

    public init(_ name: StaticString) {
        self.name = StaticText(name)
    }
}

extension LogKey {
    // Where in the log of records.
    public static let topic = LogKey("topic")
    public static let partition = LogKey("partition")
    public static let offset = LogKey("offset")
    public static let nextOffset = LogKey("next_offset")
    public static let lane = LogKey("lane")
    public static let owner = LogKey("owner")
    public static let epoch = LogKey("epoch")
    public static let clusterID = LogKey("cluster_id")
    public static let eventID = LogKey("event_id")

    // How many, how long.
    public static let count = LogKey("count")
    public static let records = LogKey("records")
    public static let days = LogKey("days")
    public static let bytes = LogKey("bytes")
    public static let attempt = LogKey("attempt")
    public static let limit = LogKey("limit")
    public static let milliseconds = LogKey("ms")
    public static let delayMilliseconds = LogKey("delay_ms")
    public static let graceMilliseconds = LogKey("grace_ms")
    public static let skewMilliseconds = LogKey("skew_ms")

    // What went wrong. `reason` is one of a fixed set of words; `error` a description that holds no outside data.
    public static let reason = LogKey("reason")
    public static let error = LogKey("error")
    public static let code = LogKey("code")
    public static let sqlState = LogKey("sqlstate")
    public static let errorNumber = LogKey("errno")
    public static let signal = LogKey("signal")
    public static let status = LogKey("status")

    // Who and where.
    public static let part = LogKey("part")
    public static let address = LogKey("address")
    public static let port = LogKey("port")
    public static let processID = LogKey("pid")
    public static let path = LogKey("path")
    public static let route = LogKey("route")
    public static let method = LogKey("method")
    public static let connections = LogKey("connections")
    public static let state = LogKey("state")
    public static let setting = LogKey("setting")
    public static let buildNumber = LogKey("build_number")
}
