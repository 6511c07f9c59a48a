import CRdKafka
import Glibc
import Synchronization

/// Owns one `rd_kafka_t`. Whatever must be freed before it (records, queues, topic handles) keeps it alive.
///
/// `@unchecked Sendable`: librdkafka's client is thread-safe, the pointer never changes, and only `deinit` ends it.
final class ClientHandle: @unchecked Sendable {
    let pointer: OpaquePointer
    let sink: LogSink
    /// For how many seconds whoever lets go of the client last waits for its end.
    let endPatience = Atomic<Int>(15)

    init(
        _ kind: rd_kafka_type_t,
        _ configuration: consuming ConfigurationHandle,
        log: @escaping KafkaLog
    ) throws(KafkaError) {
        let usesScram = configuration.value(of: "sasl.mechanisms")?.hasPrefix("SCRAM") ?? false
        let sink = LogSink(log)
        let opaque = Unmanaged.passRetained(sink)
        let raw = configuration.release()
        rd_kafka_conf_set_opaque(raw, opaque.toOpaque())
        let errorText = ErrorText()
        guard let pointer = rd_kafka_new(kind, raw, errorText.bytes, ErrorText.size) else {
            rd_kafka_conf_destroy(raw)
            opaque.release()
            throw KafkaError(rd_kafka_last_error(), errorText.text)
        }
        self.pointer = pointer
        self.sink = sink
        if usesScram && !KafkaLibrary.canDoScram {
            sink.line(severity: 4, facility: "SASL", text: KafkaLibrary.scramWarning)
        }
    }

    deinit {
        let ending = EndingClient(pointer: pointer, sink: sink)
        let seconds = endPatience.load(ordering: .acquiring)
        if !ending.finish(withinSeconds: seconds), seconds > 0 {
            let text = "the client did not end within \(seconds) s; its threads are left"
            sink.line(severity: 3, facility: "CLOSE", text: text)
        }
    }

    /// The fatal error that made this client useless, if there was one.
    var fatalError: KafkaError? {
        let errorText = ErrorText()
        let code = rd_kafka_fatal_error(pointer, errorText.bytes, ErrorText.size)
        return code == RD_KAFKA_RESP_ERR_NO_ERROR ? nil : KafkaError(code, errorText.text, isFatal: true)
    }

    /// Blocks up to the time given.
    func clusterID(timeoutMilliseconds: Int32) throws(KafkaError) -> String {
        guard let text = rd_kafka_clusterid(pointer, timeoutMilliseconds) else {
            throw KafkaError(code: KafkaError.Code.timedOut, detail: "no broker told the cluster id")
        }
        defer { rd_kafka_mem_free(pointer, text) }
        return String(cString: text)
    }

    /// As the last fetch saw them; nil before the first one. Asks nobody.
    func cachedWatermarks(_ partition: TopicPartition) -> KafkaWatermarks? {
        var low: Int64 = 0
        var high: Int64 = 0
        let code = rd_kafka_get_watermark_offsets(pointer, partition.topic, partition.partition, &low, &high)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, high >= 0 else { return nil }
        return KafkaWatermarks(low: low, high: high)
    }

    /// Asks the partition's leader for the log's end and forgets the answer.
    ///
    /// From 2.3 on such a request has the time-out of its caller and a missed one costs the connection, so newer
    /// versions are not asked.
    func askForEnd(_ partition: TopicPartition, timeoutMilliseconds: Int32) {
        guard rd_kafka_version() < 0x0203_0000 else { return }
        let list = PartitionList(capacity: 1)
        list.add(partition, offset: Int64(RD_KAFKA_OFFSET_END))
        _ = rd_kafka_offsets_for_times(pointer, list.pointer, timeoutMilliseconds)
    }

    /// Blocks up to the time given; asks the partition's leader.
    func watermarks(
        _ partition: TopicPartition,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> KafkaWatermarks {
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        return try retrying(until: deadline) { () throws(KafkaError) in
            let low = try ask(partition, for: RD_KAFKA_OFFSET_BEGINNING, deadline)
            return KafkaWatermarks(low: low, high: try ask(partition, for: RD_KAFKA_OFFSET_END, deadline))
        }
    }

    /// Not by the library's question for both ends: in 2.0.2 it waits for a leader that hangs, and asks again, whatever
    /// its limit.
    private func ask(_ partition: TopicPartition, for end: Int32, _ deadline: Deadline) throws(KafkaError) -> Int64 {
        let list = PartitionList(capacity: 1)
        list.add(partition, offset: Int64(end))
        let code = rd_kafka_offsets_for_times(pointer, list.pointer, max(1, deadline.remaining))
        try KafkaError.check(code, "watermarks of \(partition)")
        if let error = list.firstError() { throw error }
        guard let offset = list.elements.first?.offset, offset >= 0 else {
            throw KafkaError(code: KafkaError.Code.timedOut, detail: "watermarks of \(partition)")
        }
        return offset
    }

    /// Calls `body` again while a broker answers that something moves or starts (a new topic has no leader for a moment).
    func retrying<Result>(
        until deadline: Deadline,
        _ body: () throws(KafkaError) -> Result
    ) throws(KafkaError) -> Result {
        while true {
            do throws(KafkaError) {
                return try body()
            } catch {
                guard error.code > 0, error.isRetriable, deadline.remaining > 100 else { throw error }
                usleep(50_000)
            }
        }
    }

    /// Blocks up to the time given. With a handle: that topic; without: all topics that this client uses.
    func metadata<Result>(
        of topic: OpaquePointer? = nil,
        timeoutMilliseconds: Int32,
        _ read: (rd_kafka_metadata) -> Result
    ) throws(KafkaError) -> Result {
        var metadata: UnsafePointer<rd_kafka_metadata>?
        try KafkaError.check(rd_kafka_metadata(pointer, 0, topic, &metadata, timeoutMilliseconds), "metadata")
        guard let metadata else { throw KafkaError(code: KafkaError.Code.timedOut, detail: "metadata") }
        defer { rd_kafka_metadata_destroy(metadata) }
        return read(metadata.pointee)
    }
}

/// A client on its way out: `rd_kafka_destroy` joins threads and has no time limit, so it runs on a thread of its own.
///
/// `@unchecked Sendable`: the semaphore orders the two threads that share it.
private final class EndingClient: @unchecked Sendable {
    private let pointer: OpaquePointer
    private let sink: LogSink
    private let done = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init(pointer: OpaquePointer, sink: LogSink) {
        self.pointer = pointer
        self.sink = sink
        sem_init(done, 0, 0)
    }

    deinit {
        sem_destroy(done)
        done.deallocate()
    }

    /// With 0 seconds it does not wait at all.
    ///
    /// - Returns: whether the library ended in time; else its thread goes on and frees everything when it can.
    func finish(withinSeconds seconds: Int) -> Bool {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(self)
        guard pthread_create(&thread, nil, endClient, context.toOpaque()) == 0 else {
            context.release()
            run()
            return true
        }
        pthread_detach(thread)
        guard seconds > 0 else { return false }
        var limit = timespec()
        clock_gettime(CLOCK_REALTIME, &limit)
        limit.tv_sec += seconds
        while sem_timedwait(done, &limit) != 0 {
            if errno != EINTR { return false }
        }
        return true
    }

    func run() {
        rd_kafka_destroy_flags(pointer, Int32(RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE))
        // Balances ClientHandle.init: no thread of the library logs any more.
        Unmanaged.passUnretained(sink).release()
        sem_post(done)
    }
}

private func endClient(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { return nil }
    Unmanaged<EndingClient>.fromOpaque(context).takeRetainedValue().run()
    return nil
}

/// Milliseconds on a clock that only goes forward.
func monotonicMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}

/// A point in time that several calls share, however long each takes.
struct Deadline {
    private let end: Int64

    init(milliseconds: Int32) { end = monotonicMilliseconds() + Int64(max(0, milliseconds)) }

    /// Never negative, which the library would take for "no limit".
    var remaining: Int32 { Int32(clamping: max(0, end - monotonicMilliseconds())) }
}
