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
        let report = try SingleRecord(
            user: user,
            value: record.encoded(),
            schema: .days1,
            receivedAt: receivedAt,
            route: "demonstration"
        ).publish(by: producer, timeoutMilliseconds: 30_000).report
        guard let report, report.error == nil else {
            throw CommandFailure(
                .unavailable,
                "the demonstration's record was not confirmed: \(report?.error?.reason ?? "no answer in time")",
                next: "`daybook status` looks at Kafka."
            )
        }
    }
}
