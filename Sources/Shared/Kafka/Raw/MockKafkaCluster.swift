import CMockListener
import CRdKafka
import Glibc
import Synchronization

/// librdkafka's mock cluster: a Kafka in this process's memory, for development and tests only. It listens on
/// 127.0.0.1, keeps 5 MiB of each partition and forgets everything when it stops.
///
/// Each start has another cluster id. It can't make topics over the wire, find offsets by time, delete, or tell settings.
/// Members of one group must all use the same assignor.
public final class MockKafkaCluster: Sendable {
    public let bootstrapServers: String
    public let clusterID: String

    private let state: Mutex<State>

    /// `@unchecked Sendable`: lives behind the lock; librdkafka's mock calls are thread-safe.
    private struct State: @unchecked Sendable {
        var cluster: OpaquePointer?
        var client: ClientHandle?
    }

    /// - Parameters:
    ///   - brokers: 1 to 16; topics are replicated on up to three.
    ///   - port: of the first broker; 0 lets the system choose.
    ///   - topics: made before the first client can connect.
    ///   - log: the mock's own lines.
    /// - Throws: when the port is taken.
    public init(
        brokers: Int = 1,
        port: UInt16 = 0,
        topics: [(name: String, partitions: Int)] = [],
        log: @escaping KafkaLog = { _ in }
    ) throws(KafkaError) {
        guard (1...16).contains(brokers) else {
            throw KafkaError(code: KafkaError.Code.invalidArgument, detail: "\(brokers) brokers")
        }
        if port != 0 {
            // The library crashes when its bind fails.
            let failure = daybook_mock_listener_try_port(port)
            if failure != 0 {
                throw KafkaError(
                    code: KafkaError.Code.invalidArgument,
                    detail: "port \(port) of 127.0.0.1 is taken (errno \(failure)): stop what uses it or choose another"
                )
            }
        }
        let client = try ClientHandle(
            RD_KAFKA_PRODUCER,
            // No client of its own cluster: warnings about that are noise.
            ConfigurationHandle(defaults: [("client.id", "mock"), ("log_level", "3")], properties: [], events: 0),
            log: log
        )
        daybook_mock_listener_no_delay(1)
        let made = Self.makeCluster(client, brokers: brokers, port: port)
        guard let made, let servers = rd_kafka_mock_cluster_bootstraps(made.cluster) else {
            daybook_mock_listener_no_delay(0)
            throw KafkaError(code: KafkaError.Code.state, detail: "the mock cluster could not start")
        }
        bootstrapServers = String(cString: servers)
        clusterID = made.id
        state = Mutex(State(cluster: made.cluster, client: client))
        if port != 0, bootstrapServers.split(separator: ",").first?.hasSuffix(":\(port)") != true {
            stop()
            throw KafkaError(
                code: KafkaError.Code.state,
                detail: "port \(port) was not taken: this program must export the symbol bind to its libraries"
            )
        }
        // On a port that clients know already one may come at once, and a topic that it asks for would be made by that, with
        // another number of partitions.
        let numbers = port == 0 ? [] : Array(1...Int32(brokers))
        for number in numbers { try setDown(broker: number) }
        for topic in topics { try createTopic(topic.name, partitions: topic.partitions) }
        for number in numbers { try setUp(broker: number) }
    }

    deinit { stop() }

    /// Ends the cluster and its connections. Nothing else can be called after it.
    public func stop() {
        let ended = state.withLock { state in
            let ended = state
            state = State(cluster: nil, client: nil)
            return ended
        }
        guard let cluster = ended.cluster else { return }
        rd_kafka_mock_cluster_destroy(cluster)
        daybook_mock_listener_no_delay(0)
    }

    public func createTopic(_ name: String, partitions: Int) throws(KafkaError) {
        try call("topic \(name)") { rd_kafka_mock_topic_create($0, name, Int32(clamping: partitions), -1) }
    }

    /// The next produce requests, on whatever broker, are answered with these error codes, one each.
    public func failProduceRequests(with codes: [Int32]) throws(KafkaError) {
        try call("errors") { cluster in
            let errors = codes.map { rd_kafka_resp_err_t(rawValue: $0) }
            rd_kafka_mock_push_request_errors_array(cluster, 0, errors.count, errors)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Takes back errors that were not used.
    public func clearProduceErrors() throws(KafkaError) {
        try call("errors") { cluster in
            rd_kafka_mock_clear_request_errors(cluster, 0)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Broker numbers count from 1. Its connections are closed and new ones are refused.
    public func setDown(broker: Int32) throws(KafkaError) {
        try call("broker \(broker)") { rd_kafka_mock_broker_set_down($0, broker) }
    }

    public func setUp(broker: Int32) throws(KafkaError) {
        try call("broker \(broker)") { rd_kafka_mock_broker_set_up($0, broker) }
    }

    /// Delays everything that the broker answers.
    public func setRoundTrip(broker: Int32, milliseconds: Int32) throws(KafkaError) {
        try call("broker \(broker)") { rd_kafka_mock_broker_set_rtt($0, broker, milliseconds) }
    }

    /// Broker −1 leaves the partition without a leader.
    public func setLeader(of partition: TopicPartition, broker: Int32) throws(KafkaError) {
        try call("\(partition)") {
            rd_kafka_mock_partition_set_leader($0, partition.topic, partition.partition, broker)
        }
    }

    /// Every metadata answer for the topic carries this error; 0 ends it.
    public func setError(topic: String, code: Int32) throws(KafkaError) {
        try call("topic \(topic)") { cluster in
            rd_kafka_mock_topic_set_error(cluster, topic, rd_kafka_resp_err_t(rawValue: code))
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// How many accepted connections of this process got TCP_NODELAY: shows that the interposition works.
    public static var noDelayConnections: UInt64 { daybook_mock_listener_no_delay_count() }

    private func call(
        _ detail: String,
        _ body: (OpaquePointer) -> rd_kafka_resp_err_t
    ) throws(KafkaError) {
        let code = state.withLock { state in state.cluster.map(body) ?? RD_KAFKA_RESP_ERR__STATE }
        try KafkaError.check(code, "mock cluster, \(detail)")
    }

    // The mock's id is made from its address, which an allocator may give again after a stop.
    private static let usedIDs = Mutex<Set<UInt>>([])

    private static func makeCluster(
        _ client: ClientHandle,
        brokers: Int,
        port: UInt16
    ) -> (cluster: OpaquePointer, id: String)? {
        var spoilers: [UnsafeMutableRawPointer?] = []
        defer { for spoiler in spoilers { free(spoiler) } }
        while true {
            daybook_mock_listener_next_port(port)
            let made = rd_kafka_mock_cluster_new(client.pointer, Int32(brokers))
            daybook_mock_listener_next_port(0)
            guard let made else { return nil }
            let address = UInt(bitPattern: made)
            if usedIDs.withLock({ $0.insert(address).inserted }) || spoilers.count == 32 {
                return (made, "mockCluster" + String(address >> 2, radix: 16))
            }
            let size = malloc_usable_size(UnsafeMutableRawPointer(made))
            rd_kafka_mock_cluster_destroy(made)
            spoilers.append(malloc(size))
        }
    }
}
