/// Something that librdkafka has to say, for the owner's log.
public struct KafkaLogLine: Sendable {
    public enum Kind: Sendable, Equatable {
        /// A log line of the library.
        case log
        /// The client is in trouble, for example no broker can be reached. It goes on trying unless the error is fatal.
        case error(KafkaError)
        /// The library's statistics, one JSON document (only when `statistics.interval.ms` is set).
        case statistics
    }

    public let kind: Kind
    /// syslog's number: 3 error, 4 warning, 5 notice, 6 information, 7 debug.
    public let severity: Int32
    /// librdkafka's short name for what the line is about, for example `FAIL`.
    public let facility: String
    public let text: String
}

/// Gets the library's lines. Called on librdkafka's own threads too, so it must be quick and must not call the client.
public typealias KafkaLog = @Sendable (KafkaLogLine) -> Void
