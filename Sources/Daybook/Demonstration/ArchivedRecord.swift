import Configuration
import Domain
import Kafka
import MessageContract

/// Publishes a record of days as an archive would: with the `received-at` of when it was accepted once.
struct ArchivedRecord {
    let user: UserID
    let receivedAt: Instant
    let day: CalendarDay
    let values: MetricValues

    /// - Parameters:
    ///   - brokers: the Kafka of the stack.
    ///   - configuration: for the topic's name and more properties.
    /// - Throws: where it is not confirmed.
    func publish(brokers: String, _ configuration: ToolConfiguration) throws {
        let properties = configuration.kafkaProperties.map { ($0.name, $0.value.reveal()) }
        let producer = try KafkaProducer(
            properties: [("bootstrap.servers", brokers)] + properties,
            topics: [Topic.daysLive.name(prefix: configuration.topicPrefix)],
            log: { _ in }
        )
        try producer.prime(timeoutMilliseconds: 15_000)
        let record = DaysRecord(
            source: .appleHealth,
            origin: "",
            observedAt: receivedAt,
            timeZone: "UTC",
            localDate: receivedAt.day(secondsFromUTC: 0),
            days: [DaysRecord.Day(date: day, values: values)]
        )
        var generator = SystemRandomNumberGenerator()
        let event = UUID128.version7(at: receivedAt, random: (generator.next(), generator.next()))
        try Array(user.description.utf8).withUnsafeBytes { key in
            try record.encoded().withUnsafeBytes { value in
                try producer.produce(topicIndex: 0, key: key, value: value, tag: 0) { headers in
                    headers.add(HeaderName.schema, Schema.days1.id.description)
                    headers.add(HeaderName.eventID, event.description)
                    headers.add(HeaderName.receivedAt, receivedAt.description)
                    headers.add(HeaderName.route, "demonstration")
                }
            }
        }
        var report: DeliveryReport?
        producer.flush(timeoutMilliseconds: 30_000) { report = $0 }
        guard let report, report.error == nil else {
            throw CommandFailure(
                .unavailable,
                "the demonstration's record was not confirmed: \(report?.error?.reason ?? "no answer in time")",
                next: "`daybook status` looks at Kafka."
            )
        }
    }
}
