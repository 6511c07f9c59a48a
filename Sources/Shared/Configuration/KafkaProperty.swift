/// A librdkafka property that is handed on as it is, from `DAYBOOK_KAFKA_<NAME>`: underscores are dots, and two in a
/// row stand for one underscore (`DAYBOOK_KAFKA_SECURITY_PROTOCOL` is `security.protocol`, `DAYBOOK_KAFKA_LOG__LEVEL`
/// is `log_level`). librdkafka checks names and values; all values are kept as secrets, as any may be one.
public struct KafkaProperty: Sendable {
    public let name: String
    public let value: Secret

    public init(name: String, value: Secret) {
        self.name = name
        self.value = value
    }

    static let prefix = "DAYBOOK_KAFKA_"

    /// Properties that Daybook's guarantees stand on, or that have a setting of ours, and what to do instead.
    static let reserved: [String: String] = [
        "bootstrap.servers": "is set by DAYBOOK_KAFKA_BROKERS",
        "metadata.broker.list": "is set by DAYBOOK_KAFKA_BROKERS",
        "group.id": "is set by DAYBOOK_CONSUMER_GROUP",
        "group.instance.id": "is set by DAYBOOK_CONSUMER_INSTANCE",
        "session.timeout.ms": "is set by DAYBOOK_SESSION_TIMEOUT_MS",
        "max.poll.interval.ms": "is set by DAYBOOK_MAX_POLL_INTERVAL_MS",
        "acks": fixed,
        "request.required.acks": fixed,
        "enable.idempotence": fixed,
        "partitioner": fixed,
        "partition.assignment.strategy": fixed,
        "auto.offset.reset": fixed,
        "enable.auto.commit": fixed,
        "auto.commit.enable": fixed,
        "enable.auto.offset.store": fixed,
        "transactional.id": fixed,
    ]

    private static let fixed = "can't be changed: Daybook's guarantees depend on it; remove it"

    /// Names of one word, the only ones that could be mistaken for a misspelt setting of ours.
    static let singleWords: Set = ["debug", "retries"]

    /// The property that a key stands for, and the key without `_FILE`; nil if it is a setting of ours or no property.
    static func passThrough(_ key: String) -> (base: String, name: String)? {
        guard Settings.description(of: key) == nil, key.hasPrefix(prefix) else { return nil }
        var base = key
        // No property's name ends in ".file".
        if base.hasSuffix(Settings.fileSuffix) { base.removeLast(Settings.fileSuffix.utf8.count) }
        let words = base.dropFirst(prefix.utf8.count)
        guard !words.isEmpty else { return nil }
        var name: [UInt8] = []
        for byte in words.utf8 {
            switch byte {
            case UInt8(ascii: "_"):
                if name.last == UInt8(ascii: ".") {
                    name[name.count - 1] = UInt8(ascii: "_")
                } else {
                    name.append(UInt8(ascii: "."))
                }
            case 65...90: name.append(byte + 32)
            case 48...57: name.append(byte)
            default: return nil
            }
        }
        return (base, String(decoding: name, as: UTF8.self))
    }
}
