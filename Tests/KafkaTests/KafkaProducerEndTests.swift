import Dispatch
import Glibc
import Kafka
import ServiceRuntime
import Synchronization
import Testing

struct KafkaProducerEndTests {
    @Test func `a retired producer is let go at once, however long its threads take to end`() throws {
        let (blocked, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isFirst = Atomic<Bool>(true)
        let own = pthread_self()
        var producer: KafkaProducer? = try KafkaProducer(
            properties: [("bootstrap.servers", "127.0.0.1:1"), ("debug", "broker")],
            topics: ["t"],
            // A thread of the library that hangs in here can't be ended.
            log: { _ in
                guard pthread_self() != own, isFirst.exchange(false, ordering: .relaxed) else { return }
                blocked.signal()
                _ = gate.wait(timeout: .now() + 30)
            }
        )
        #expect(blocked.wait(timeout: .now() + 10) == .success)
        producer?.retire()
        let limit = Deadline.after(milliseconds: 5000)
        producer = nil
        #expect(!limit.hasPassed())
        gate.signal()
    }
}
