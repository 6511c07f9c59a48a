import Configuration
import Domain
import Kafka
import MessageContract
import Storage

/// What every command about dead letters works with: the topic, the marks and the deletions.
struct DeadLetterDesk {
    let access: StackAccess
    let topic: String
    let marks: DeadLetterMarks
    private let admin: KafkaAdmin

    static let environment: [(name: String, help: String)] = [
        ("DAYBOOK_KAFKA_BROKERS", "else the local stack's"), ("DAYBOOK_DATABASE_URL", "else the local stack's"),
    ]

    static let unavailable = CommandSpec.Status(.unavailable, "Kafka or PostgreSQL does not answer")

    init(_ access: StackAccess) throws {
        self.access = access
        topic = Topic.deadLetters.name(prefix: access.configuration.topicPrefix)
        marks = DeadLetterMarks(try access.connect())
        admin = try access.kafkaAdmin()
    }

    /// Reads all of them, in the stretches of now.
    func open() throws -> DeadLetterBox {
        let scan = LogScan(try access.kafkaReader())
        var letters: [DeadLetter] = []
        var strangers = 0
        for stretch in try LogScan.everything(in: topic, admin) {
            try scan.read(stretch) { record in
                if let letter = DeadLetter(record) { letters.append(letter) } else { strangers += 1 }
                return true
            }
        }
        return DeadLetterBox(
            letters,
            marks: try marks.all(),
            deletions: try marks.deletions(of: Set(letters.compactMap(\.user))),
            strangers: strangers
        )
    }

    /// Those that the command line means.
    ///
    /// - Throws: where it names one that is not there.
    func chosen(_ filter: DeadLetterFilter, all: Bool) throws -> [KnownLetter] {
        let box = try open()
        let found = box.chosen(filter, all: all)
        guard found.isEmpty, let name = filter.name else { return found }
        let named = box.chosen(filter, all: true)
        let place = "\(name.topic)/\(name.partition)/\(name.offset)"
        guard let known = named.last else {
            throw CommandFailure(
                .failure,
                "there is no dead letter \(place)",
                next: "`daybook dead-letters list --each --all` shows those that there are."
            )
        }
        throw CommandFailure(
            .failure,
            "\(place) is decided: \(DeadLetterText.words(known.state))",
            next: known.state == .deleted ? "It stays as it is." : "Give --again to do it all the same."
        )
    }

    /// The whole record of a letter: as it lies in the dead-letter topic, or, where it was too large for that, as it
    /// still stands in its own log. Nil where neither has it.
    func record(of letter: DeadLetter, _ scan: LogScan, clusterID: String) throws -> KafkaRecord? {
        if letter.omittedBytes == nil {
            let place = TopicPartition(topic: topic, partition: letter.place.partition)
            return try scan.record(place, at: letter.place.offset)
        }
        let identity = letter.identity
        guard identity.clusterID == clusterID else { return nil }
        let place = TopicPartition(topic: identity.topic, partition: identity.partition)
        let record = try scan.record(place, at: identity.offset)
        return record?.timestampMilliseconds == identity.appendedAt ? record : nil
    }

    func clusterID() throws -> String { try admin.clusterID(timeoutMilliseconds: 10_000) }
}

extension StackAccess {
    func kafkaReader() throws -> KafkaReader {
        let isTalkative = configuration.logLevel == .debug
        let properties = configuration.kafkaProperties.map { ($0.name, $0.value.reveal()) }
        return try KafkaReader(properties: [("bootstrap.servers", try kafkaBrokers())] + properties) { line in
            if isTalkative { Console.standardError("\(line.facility) \(line.text)") }
        }
    }

    func kafkaProducer(topics: [String], _ more: [(String, String)] = []) throws -> KafkaProducer {
        let isTalkative = configuration.logLevel == .debug
        let properties = configuration.kafkaProperties.map { ($0.name, $0.value.reveal()) }
        return try KafkaProducer(
            properties: [("bootstrap.servers", try kafkaBrokers())] + more + properties,
            topics: topics
        ) { line in
            if isTalkative { Console.standardError("\(line.facility) \(line.text)") }
        }
    }
}
