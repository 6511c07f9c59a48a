import CRdKafka

/// What the librdkafka that is loaded can do.
public enum KafkaLibrary {
    /// Before 2.6.1 the library repeats the client's nonce in SCRAM's last message. Kafka 4.0 and later refuse that as
    /// wrong credentials, as the standard wants; Kafka 3 lets it pass.
    public static var canDoScram: Bool { rd_kafka_version() >= 0x0206_01ff }

    static let scramWarning =
        "this librdkafka is older than 2.6.1, and its SCRAM is refused by Kafka 4.0 and later as wrong credentials: use "
        + "PLAIN over TLS or client certificates there"
}
