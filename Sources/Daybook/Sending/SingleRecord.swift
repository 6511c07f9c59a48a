import Domain
import Kafka
import MessageContract

/// One record of a user, as ingest writes them.
struct SingleRecord {
    let user: UserID
    let value: [UInt8]
    let schema: Schema
    let receivedAt: Instant
    let route: String

    /// Hands it to the first topic of a producer that is primed, and waits.
    ///
    /// - Parameters:
    ///   - producer: of the topic's Kafka.
    ///   - timeoutMilliseconds: how long it waits.
    /// - Returns: the record's event id, and what became of it; no report where none came in the time given.
    /// - Throws: `KafkaError` where the record could not be handed over.
    func publish(
        by producer: KafkaProducer,
        timeoutMilliseconds: Int32
    ) throws -> (event: EventID, report: DeliveryReport?) {
        var generator = SystemRandomNumberGenerator()
        let event = UUID128.version7(at: receivedAt, random: (generator.next(), generator.next()))
        let key = Array(user.description.utf8)
        try key.withUnsafeBytes { key in
            try value.withUnsafeBytes { value in
                try producer.produce(topicIndex: 0, key: key, value: value, tag: 0) { headers in
                    headers.add(HeaderName.schema, schema.id.description)
                    headers.add(HeaderName.eventID, event.description)
                    headers.add(HeaderName.receivedAt, receivedAt.description)
                    headers.add(HeaderName.route, route)
                }
            }
        }
        var report: DeliveryReport?
        producer.flush(timeoutMilliseconds: timeoutMilliseconds) { report = $0 }
        return (event, report)
    }
}
