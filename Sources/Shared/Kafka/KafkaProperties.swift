/// The product's librdkafka properties. They are set first, so whatever the caller gives overrides them.
public enum KafkaProperties {
    public typealias List = [(String, String)]

    /// For every client.
    static let common: List = [
        ("client.id", "daybook"),
        ("reconnect.backoff.max.ms", "1000"),
        ("socket.nagle.disable", "true"),
        ("topic.metadata.refresh.interval.ms", "60000"),
        // Topics are made by `daybook migrate`, strong. A producer that asks for one that is missing would have a broker
        // make a weak one, with its own defaults.
        ("allow.auto.create.topics", "false"),
        // A broker that closes an idle connection is no news.
        ("log.connection.close", "false"),
    ]

    /// Acknowledged by all in-sync replicas, in order, without duplicates; partitions as the Java clients choose them.
    static let producer: List =
        common + [
            ("acks", "all"),
            ("enable.idempotence", "true"),
            ("compression.codec", "lz4"),
            ("partitioner", "murmur2_random"),
            // Whole milliseconds: a smaller linger makes the broker threads spin.
            ("linger.ms", "2"),
            ("message.timeout.ms", "30000"),
            // A leader that hangs keeps its connections: what is on its way there is taken back after this time, and
            // goes to the new leader that the others have chosen by then. Repeating it makes no duplicates.
            ("socket.timeout.ms", "6000"),
            ("topic.metadata.refresh.interval.ms", "3000"),
            // Connect to every broker early: the first record then waits for no connection.
            ("enable.sparse.connections", "false"),
        ]

    /// Offsets are the caller's affair: nothing is committed, stored or reset behind its back.
    static let consumer: List =
        common + [
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "error"),
            // Eager. The cooperative assignor of librdkafka 2.0.2 loses assignments.
            ("partition.assignment.strategy", "range"),
            ("session.timeout.ms", "10000"),
            ("heartbeat.interval.ms", "2000"),
            // A leader that hangs keeps its connections: what is asked of it comes back after this time.
            ("socket.timeout.ms", "6000"),
            // For each partition: whoever reads many gives less.
            ("queued.max.messages.kbytes", "4096"),
            ("fetch.wait.max.ms", "100"),
            ("fetch.error.backoff.ms", "200"),
            ("check.crcs", "true"),
        ]

    /// Two members with different assignors abort librdkafka's mock cluster, and cooperative ones lose partitions.
    static let refusedAssignor = "cooperative"
}
