import Authentication
import Domain
import Foundation
import Kafka
import ServiceRuntime
import Synchronization
import TestSupport

/// Requests through the built ingest, and records straight to the log, each by threads of its own, until stopped.
/// Remembers every position that was confirmed.
final class Load: Sendable {
    /// A record that somebody was told is in the log.
    struct Confirmed: Sendable {
        let place: String
        /// Of the request; nil for a record that was written straight to the log.
        let eventID: String?
        /// When the request was sent; nil as above.
        let askedAt: Date?
    }

    struct Outcome: Sendable {
        var confirmed: [Confirmed] = []
        var statuses: [Int: Int] = [:]
        /// Requests whose connection ended before an answer.
        var unanswered = 0
        var direct = 0
        var unconfirmed = 0
        /// Odd records that are in the log, by kind.
        var odd: [Oddity: Int] = [:]
        var problems: [String] = []
    }

    struct Settings: Sendable {
        let bootstrapServers: String
        let secret: String
        /// Of live, history and accounts, in this order.
        let topics: [String]
        /// Requests a second, all threads together.
        let rate: Int
        var threads = 4
    }

    private let settings: Settings
    private let generator: Mutex<Generator>
    private let state = Mutex(Outcome())
    private let isStopped = Atomic<Bool>(false)
    private let port = Atomic<UInt16>(0)
    private let group = DispatchGroup()

    init(_ settings: Settings, _ generator: sending Generator) {
        self.settings = settings
        self.generator = Mutex(generator)
    }

    var outcome: Outcome { state.withLock { $0 } }

    /// How many positions were confirmed to requests that were sent since then.
    func accepted(askedSince begun: Date) -> Int {
        state.withLock { state in
            state.confirmed.count { confirmed in confirmed.askedAt.map { $0 >= begun } ?? false }
        }
    }

    /// Where ingest listens now.
    func setPort(_ port: UInt16) { self.port.store(port, ordering: .relaxed) }

    func start() {
        for _ in 0..<settings.threads {
            run { load in load.postAll() }
        }
        run { load in try load.writeAll() }
    }

    func stop() throws {
        isStopped.store(true, ordering: .relaxed)
        guard group.wait(timeout: .now() + 60) == .success else { throw Eventually.TimedOut(what: "the load's end") }
    }

    private var goesOn: Bool { !isStopped.load(ordering: .relaxed) }

    private func run(_ body: @escaping @Sendable (Load) throws -> Void) {
        group.enter()
        Thread.detachNewThread { [self] in
            do {
                try body(self)
            } catch {
                state.withLock { $0.problems.append("\(error)") }
            }
            group.leave()
        }
    }

    // MARK: Requests

    private func postAll() {
        let pause = UInt32(1_000_000 * settings.threads / max(1, settings.rate))
        var tokens: [String: String] = [:]
        var connection: HTTPConnection?
        while goesOn {
            let post = generator.withLock { $0.post() }
            // As a phone does: the same again until it is confirmed, but not for ever.
            for _ in 0..<3 where goesOn {
                usleep(pause)
                let askedAt = Date()
                let opened = try? connection ?? HTTPConnection(port: port.load(ordering: .relaxed), seconds: 30)
                guard let opened, let token = try? token(for: post, &tokens),
                    let answer = try? opened.request(
                        "POST",
                        post.isConnector ? "/v1/users/\(post.user)/days" : "/v1/days",
                        token: token,
                        body: Array(post.body.utf8)
                    )
                else {
                    state.withLock { $0.unanswered += 1 }
                    connection = nil
                    continue
                }
                connection = answer.header("Connection")?.lowercased() == "close" ? nil : opened
                note(answer, askedAt)
                if answer.status != 503 { break }
            }
        }
    }

    private func note(_ answer: HTTPConnection.Answer, _ askedAt: Date) {
        let confirmed = answer.status == 202 ? Self.positions(in: answer.body, askedAt) : []
        state.withLock { state in
            state.statuses[answer.status, default: 0] += 1
            state.confirmed += confirmed
            if answer.status >= 400 && answer.status != 503 && state.problems.count < 5 {
                state.problems.append("a request was answered \(answer.status)")
            }
        }
    }

    private func token(for post: Generator.Post, _ tokens: inout [String: String]) throws -> String {
        let subject = post.isConnector ? "connector" : post.user
        if let token = tokens[subject] { return token }
        let minter = try TokenMinter(TokenPolicy(hmacKeys: [Array(settings.secret.utf8)]))
        let now = Instant.present
        let token = try minter.mint(
            subject: subject,
            role: post.isConnector ? .connector : .user,
            now: now,
            validFor: 86_400
        )
        tokens[subject] = token
        return token
    }

    private static func positions(in body: String, _ askedAt: Date) -> [Confirmed] {
        let object = (try? JSONSerialization.jsonObject(with: Data(body.utf8))) as? [String: Any] ?? [:]
        var text = (object["position"] as? String ?? "").replacing("-", with: "+").replacing("_", with: "/")
        while !text.count.isMultiple(of: 4) { text += "=" }
        let plain = Data(base64Encoded: text).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let event = object["event_id"] as? String
        return plain.split(separator: ",").map { Confirmed(place: String($0), eventID: event, askedAt: askedAt) }
    }

    // MARK: Straight to the log

    private func writeAll() throws {
        let producer = try makeProducer()
        var oddities: [Oddity?] = []
        while goesOn {
            usleep(UInt32(4_000_000 / max(1, settings.rate)))
            let record = generator.withLock { $0.record() }
            let sent = Self.send(record, over: producer, tag: UInt64(oddities.count))
            oddities.append(record.oddity)
            _ = producer.drainReports { note($0, oddities[Int($0.tag)]) }
            if !sent { usleep(200_000) }
        }
        _ = producer.flush(timeoutMilliseconds: 20_000) { note($0, oddities[Int($0.tag)]) }
    }

    private func note(_ report: DeliveryReport, _ oddity: Oddity?) {
        state.withLock { state in
            state.direct += 1
            if report.error == nil {
                if let oddity { state.odd[oddity, default: 0] += 1 }
                let place = "\(settings.topics[report.topicIndex])/\(report.partition)/\(report.offset)"
                state.confirmed.append(Confirmed(place: place, eventID: nil, askedAt: nil))
            } else {
                state.unconfirmed += 1
            }
        }
    }

    private func makeProducer() throws -> KafkaProducer {
        let properties = [
            ("bootstrap.servers", settings.bootstrapServers), ("message.timeout.ms", "15000"),
            // More than ingest writes: an oddity may be larger.
            ("message.max.bytes", "4000000"),
        ]
        let producer = try KafkaProducer(properties: properties, topics: settings.topics, log: { _ in })
        try producer.prime(timeoutMilliseconds: 20_000)
        return producer
    }

    private static func send(_ record: Generator.Direct, over producer: KafkaProducer, tag: UInt64) -> Bool {
        let sent: Void? = try? record.key.withUnsafeBytes { key in
            try record.value.withUnsafeBytes { value in
                try producer.produce(
                    topicIndex: record.lane.rawValue,
                    partition: record.partition,
                    key: key,
                    value: value,
                    tag: tag
                ) { headers in
                    for header in record.headers {
                        Array(header.name.utf8).withUnsafeBytes { name in
                            header.value.map { value in
                                value.withUnsafeBytes { headers.add(nameBytes: name, $0) }
                            }
                        }
                    }
                }
            }
        }
        return sent != nil
    }

    /// Writes all of these again, as they were, in an order of this seed; returns when all are confirmed.
    func republish(_ records: [LogRecord], seed: UInt64) throws {
        let producer = try makeProducer()
        var random = SplitMix64(seed: seed)
        var failed = 0
        for record in records.shuffled(using: &random) {
            guard let index = settings.topics.firstIndex(of: record.topic) else { continue }
            let lane = Generator.Direct.Lane(rawValue: index) ?? .live
            let direct = Generator.Direct(
                lane: lane,
                key: record.key ?? [],
                value: record.value ?? [],
                headers: record.headers
            )
            while !Self.send(direct, over: producer, tag: 0) { usleep(20_000) }
            producer.drainReports { failed += $0.error == nil ? 0 : 1 }
        }
        let left = producer.flush(timeoutMilliseconds: 60_000) { failed += $0.error == nil ? 0 : 1 }
        guard left == 0, failed == 0 else {
            throw Eventually.TimedOut(what: "\(left + failed) records that were written again are not confirmed")
        }
    }
}
