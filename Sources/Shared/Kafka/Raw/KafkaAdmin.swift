import CRdKafka

/// Makes and describes topics. Every call blocks up to the time given; any thread.
///
/// librdkafka's mock cluster, known by its cluster id, can neither make topics nor tell settings, and asking it would
/// wait for a controller that it doesn't name: `create` throws `isUnsupported`, descriptions come without settings. Calls on groups are left out on purpose, since some of them
/// abort the client there; `committedOffsets` asks as a member would, which every broker answers.
public final class KafkaAdmin: Sendable {
    private let client: ClientHandle
    private let properties: [(String, String)]
    private let log: KafkaLog

    public init(properties: [(String, String)], log: @escaping KafkaLog) throws(KafkaError) {
        client = try ClientHandle(
            RD_KAFKA_PRODUCER,
            ConfigurationHandle(defaults: KafkaProperties.common, properties: properties, events: 0),
            log: log
        )
        self.properties = properties
        self.log = log
    }

    /// Makes those topics that don't exist yet, and waits until they can be used; one that exists is left as it is.
    ///
    /// - Returns: the names of the topics that were made.
    @discardableResult
    public func create(
        _ topics: [KafkaTopicSpecification],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [String] {
        if topics.isEmpty { return [] }
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        var requests: [OpaquePointer?] = []
        defer { for request in requests { rd_kafka_NewTopic_destroy(request) } }
        let errorText = ErrorText()
        for topic in topics {
            guard
                let request = rd_kafka_NewTopic_new(
                    topic.name,
                    topic.partitions,
                    topic.replicationFactor,
                    errorText.bytes,
                    ErrorText.size
                )
            else {
                throw KafkaError(code: KafkaError.Code.invalidArgument, detail: "\(topic.name): \(errorText.text)")
            }
            requests.append(request)
            for (name, value) in topic.settings.sorted(by: { $0.key < $1.key }) {
                try KafkaError.check(rd_kafka_NewTopic_set_config(request, name, value), "\(topic.name) \(name)")
            }
        }
        let event = try client.request(RD_KAFKA_ADMIN_OP_CREATETOPICS, timeoutMilliseconds) { options, queue in
            rd_kafka_CreateTopics(self.client.pointer, &requests, requests.count, options, queue)
        }
        defer { rd_kafka_event_destroy(event) }
        var count = 0
        let results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count)
        var made: [String] = []
        for index in 0..<count {
            guard let result = results?[index] else { continue }
            let name = rd_kafka_topic_result_name(result).map { String(cString: $0) } ?? ""
            let code = rd_kafka_topic_result_error(result)
            if code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS { continue }
            let text = rd_kafka_topic_result_error_string(result).map { String(cString: $0) } ?? ""
            try KafkaError.check(code, "\(name): \(text)")
            made.append(name)
        }
        // The answer comes before every broker knows the topic and leads its partitions.
        for name in made {
            try client.awaitLeaders(ofTopic: name, deadline: deadline)
        }
        return made
    }

    /// - Throws: `isUnknownTopic` if there is no such topic. (The mock cluster makes it.)
    public func describe(_ topic: String, timeoutMilliseconds: Int32) throws(KafkaError) -> KafkaTopicDescription {
        try client.describeTopic(topic, deadline: Deadline(milliseconds: timeoutMilliseconds))
    }

    /// Needs no right but to see the topic, unlike `describe`.
    ///
    /// - Throws: `isUnknownTopic` if there is no such topic. (The mock cluster makes it.)
    public func partitionCount(of topic: String, timeoutMilliseconds: Int32) throws(KafkaError) -> Int {
        try client.shape(ofTopic: topic, timeoutMilliseconds: timeoutMilliseconds).partitions
    }

    public func clusterID(timeoutMilliseconds: Int32) throws(KafkaError) -> String {
        try client.clusterID(timeoutMilliseconds: timeoutMilliseconds)
    }

    public func watermarks(
        _ partition: TopicPartition,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> KafkaWatermarks {
        try client.watermarks(partition, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// Where the log of each partition was at a time: the first record that has this time or a later one; `nil` where
    /// there is none yet.
    ///
    /// - Throws: `isUnsupported` on the mock cluster.
    public func offsets(
        at milliseconds: Int64,
        _ partitions: [TopicPartition],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [Int64?] {
        try client.offsets(at: milliseconds, partitions, deadline: Deadline(milliseconds: timeoutMilliseconds))
    }

    /// The next offsets that a group has committed; `nil` where there is none.
    public func committedOffsets(
        group: String,
        _ partitions: [TopicPartition],
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [Int64?] {
        // A consumer that never subscribes is no member: it only asks the coordinator.
        let asking = try ClientHandle(
            RD_KAFKA_CONSUMER,
            ConfigurationHandle(
                defaults: KafkaProperties.consumer,
                properties: properties + [("group.id", group)],
                events: 0
            ),
            log: log
        )
        return try asking.committed(partitions, timeoutMilliseconds: timeoutMilliseconds)
    }
}

extension ClientHandle {
    func describeTopic(_ name: String, deadline: Deadline) throws(KafkaError) -> KafkaTopicDescription {
        let found = try shape(ofTopic: name, timeoutMilliseconds: max(1, deadline.remaining))
        return KafkaTopicDescription(
            name: name,
            partitions: found.partitions,
            replicationFactor: found.replicas,
            settings: try settings(ofTopic: name, timeoutMilliseconds: max(1, deadline.remaining))
        )
    }

    /// How many partitions it has, and of how many copies the one with the fewest.
    func shape(
        ofTopic name: String,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> (partitions: Int, replicas: Int) {
        guard let topic = rd_kafka_topic_new(pointer, name, nil) else {
            throw KafkaError(rd_kafka_last_error(), name)
        }
        defer { rd_kafka_topic_destroy(topic) }
        let found = try metadata(of: topic, timeoutMilliseconds: timeoutMilliseconds) {
            metadata -> (code: rd_kafka_resp_err_t, partitions: Int, replicas: Int) in
            guard metadata.topic_cnt > 0, let topic = metadata.topics?.pointee else {
                return (RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, 0, 0)
            }
            let partitions = UnsafeBufferPointer(start: topic.partitions, count: Int(topic.partition_cnt))
            return (topic.err, partitions.count, partitions.map { Int($0.replica_cnt) }.min() ?? 0)
        }
        try KafkaError.check(found.code, name)
        return (found.partitions, found.replicas)
    }

    /// `nil` where the cluster can't tell.
    private func settings(
        ofTopic name: String,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [String: String]? {
        var resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name)
        defer { rd_kafka_ConfigResource_destroy(resource) }
        let event: OpaquePointer
        do {
            event = try request(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeoutMilliseconds) { options, queue in
                rd_kafka_DescribeConfigs(self.pointer, &resource, 1, options, queue)
            }
        } catch {
            if error.isUnsupported { return nil }
            throw error
        }
        defer { rd_kafka_event_destroy(event) }
        var count = 0
        let results = rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &count)
        guard count > 0, let result = results?[0] else { return nil }
        let text = rd_kafka_ConfigResource_error_string(result).map { String(cString: $0) } ?? ""
        try KafkaError.check(rd_kafka_ConfigResource_error(result), "\(name): \(text)")
        var entryCount = 0
        let entries = rd_kafka_ConfigResource_configs(result, &entryCount)
        var settings: [String: String] = [:]
        for index in 0..<entryCount {
            guard let entry = entries?[index], let key = rd_kafka_ConfigEntry_name(entry),
                let value = rd_kafka_ConfigEntry_value(entry)
            else { continue }
            settings[String(cString: key)] = String(cString: value)
        }
        return settings
    }

    func awaitLeaders(ofTopic name: String, deadline: Deadline) throws(KafkaError) {
        guard let topic = rd_kafka_topic_new(pointer, name, nil) else { throw KafkaError(rd_kafka_last_error(), name) }
        defer { rd_kafka_topic_destroy(topic) }
        try retrying(until: deadline) { () throws(KafkaError) in
            let isReady = try metadata(of: topic, timeoutMilliseconds: max(1, deadline.remaining)) { metadata in
                guard metadata.topic_cnt > 0, let topic = metadata.topics?.pointee else { return false }
                let partitions = UnsafeBufferPointer(start: topic.partitions, count: Int(topic.partition_cnt))
                return topic.err == RD_KAFKA_RESP_ERR_NO_ERROR && partitions.allSatisfy { $0.leader >= 0 }
            }
            if !isReady { throw KafkaError(RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, name) }
        }
    }

    func offsets(
        at milliseconds: Int64,
        _ partitions: [TopicPartition],
        deadline: Deadline
    ) throws(KafkaError) -> [Int64?] {
        if try isMock(timeoutMilliseconds: deadline.remaining) {
            throw KafkaError(code: KafkaError.Code.unsupportedFeature, detail: "the development broker")
        }
        return try retrying(until: deadline) { () throws(KafkaError) in
            let list = PartitionList(capacity: partitions.count)
            for partition in partitions { list.add(partition, offset: milliseconds) }
            let code = rd_kafka_offsets_for_times(pointer, list.pointer, max(1, deadline.remaining))
            try KafkaError.check(code, "offsets by time")
            if let error = list.firstError() { throw error }
            // A negative one stands for the end of the log.
            return list.elements.map { $0.offset < 0 ? nil : $0.offset }
        }
    }

    private func isMock(timeoutMilliseconds: Int32) throws(KafkaError) -> Bool {
        try clusterID(timeoutMilliseconds: max(1, timeoutMilliseconds)).hasPrefix("mockCluster")
    }

    /// Sends one admin request and waits for its answer, which the caller frees.
    func request(
        _ operation: rd_kafka_admin_op_t,
        _ timeoutMilliseconds: Int32,
        _ send: (_ options: OpaquePointer?, _ queue: OpaquePointer?) -> Void
    ) throws(KafkaError) -> OpaquePointer {
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        if try isMock(timeoutMilliseconds: timeoutMilliseconds) {
            // It names no controller: the request would wait for one until its time is up.
            throw KafkaError(code: KafkaError.Code.unsupportedFeature, detail: "the development broker")
        }
        let errorText = ErrorText()
        let options = rd_kafka_AdminOptions_new(pointer, operation)
        defer { rd_kafka_AdminOptions_destroy(options) }
        let queue = rd_kafka_queue_new(pointer)
        defer { rd_kafka_queue_destroy(queue) }
        // The whole wait, connection included.
        let code = rd_kafka_AdminOptions_set_request_timeout(
            options,
            max(1, timeoutMilliseconds),
            errorText.bytes,
            ErrorText.size
        )
        try KafkaError.check(code, errorText.text)
        send(options, queue)
        guard let event = rd_kafka_queue_poll(queue, deadline.remaining &+ 500) else {
            throw KafkaError(code: KafkaError.Code.timedOut, detail: "admin request")
        }
        let result = rd_kafka_event_error(event)
        if result != RD_KAFKA_RESP_ERR_NO_ERROR {
            let text = rd_kafka_event_error_string(event).map { String(cString: $0) }
            rd_kafka_event_destroy(event)
            throw KafkaError(result, text)
        }
        return event
    }
}
