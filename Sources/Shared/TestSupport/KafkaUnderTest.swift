import Foundation
public import Kafka

/// One of the clusters that a conformance test runs over: always librdkafka's mock, and a real Apache Kafka when
/// `KAFKA_HOME` is set. Both are started once for the test process; tests keep apart by their topics' names.
public struct KafkaUnderTest: Sendable, CustomStringConvertible {
    public enum Kind: String, Sendable {
        case mock
        case real
    }

    public let kind: Kind
    public let bootstrapServers: String
    /// Set for the mock.
    public let mock: MockKafkaCluster?
    /// Set for the real one.
    public let real: RealKafka?

    public var description: String { kind.rawValue }

    /// The shared clusters.
    public static let all: [KafkaUnderTest] = {
        do {
            return try Kind.allAvailable.map { try KafkaUnderTest.start($0) }
        } catch {
            print("KafkaUnderTest: a cluster did not start: \(error)")
            return []
        }
    }()

    /// A cluster of the test's own, for tests that take brokers down; `settings` are a real broker's (`key=value`).
    public static func start(_ kind: Kind, brokers: Int = 1, settings: [String] = []) throws -> KafkaUnderTest {
        switch kind {
        case .mock:
            let mock = try MockKafkaCluster(brokers: brokers)
            return KafkaUnderTest(kind: kind, bootstrapServers: mock.bootstrapServers, mock: mock, real: nil)
        case .real:
            let real = try RealKafka(nodes: brokers, settings: settings)
            return KafkaUnderTest(kind: kind, bootstrapServers: real.bootstrapServers, mock: nil, real: real)
        }
    }

    /// A mock of the test's own with these topics and, if it is not 0, on this port: stopped and started again on the
    /// same port it is another cluster under the same address.
    public static func mock(topics: [(name: String, partitions: Int)], port: UInt16 = 0) throws -> KafkaUnderTest {
        let mock = try MockKafkaCluster(brokers: 1, port: port, topics: topics)
        return KafkaUnderTest(kind: .mock, bootstrapServers: mock.bootstrapServers, mock: mock, real: nil)
    }

    /// Ends a cluster of the test's own.
    public func stop() {
        mock?.stop()
        real?.stop()
    }

    /// Makes a topic with a name of its own.
    ///
    /// - Returns: the name.
    public func makeTopic(
        _ label: String,
        partitions: Int = 1,
        settings: [String: String] = [:]
    ) throws -> String {
        let name = "\(label)-\(UUID().uuidString.prefix(8).lowercased())"
        if let mock {
            try mock.createTopic(name, partitions: partitions)
        } else {
            let admin = try KafkaAdmin(properties: properties(), log: { _ in })
            let topic = KafkaTopicSpecification(
                name: name,
                partitions: Int32(clamping: partitions),
                settings: settings
            )
            try admin.create([topic], timeoutMilliseconds: 20_000)
        }
        return name
    }

    /// Properties for a client of this cluster.
    public func properties(_ more: [(String, String)] = []) -> [(String, String)] {
        [("bootstrap.servers", bootstrapServers)] + more
    }

    /// Makes all brokers unreachable.
    public func takeDown() throws {
        try mock?.setDown(broker: 1)
        try real?.kill(node: 1)
    }

    /// Makes the broker keep its connections and answer nothing.
    public func hang() throws {
        try mock?.setRoundTrip(broker: 1, milliseconds: 120_000)
        try real?.pause(node: 1)
    }

    /// Ends `hang`.
    public func goOn() throws {
        try mock?.setRoundTrip(broker: 1, milliseconds: 0)
        // What hung is over when its connections are: answers that were held back would hold back the next ones.
        try mock?.setDown(broker: 1)
        try mock?.setUp(broker: 1)
        try real?.resume(node: 1)
    }

    public func bringBack() throws {
        try mock?.setUp(broker: 1)
        try real?.restart(node: 1)
    }
}

extension KafkaUnderTest.Kind {
    /// The kinds that can be started here; says once, aloud, when the real one can't.
    public static let allAvailable: [KafkaUnderTest.Kind] = {
        if RealKafka.home != nil { return [.mock, .real] }
        print("*** SKIPPED: the tests over a real Kafka, because KAFKA_HOME is not set. Only the mock is tested. ***")
        return [.mock]
    }()
}
