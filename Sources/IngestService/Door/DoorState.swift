import Authentication
import Configuration
import Observability
import ServiceRuntime
import Synchronization

/// What all loops share. Everything in it may be used from any thread.
final class DoorState: Sendable {
    /// How each loop's verifier is made.
    struct Tokens: Sendable {
        var policy: TokenPolicy
        var keys: KeyRing
        /// How many verified tokens each remembers.
        var remembered: Int
    }

    let tokens: Tokens
    let fallbackZone: String
    /// Nil: users are not limited.
    let limiter: RateLimiter?
    let maximumInFlightBytes: Int
    let holder: ProducerHolder
    let readiness: Readiness
    let metrics: IngestMetrics
    let time: any TimeSource
    /// Since the last heartbeat: write requests, and how many of them were answered 2xx.
    private let requests = Atomic<Int>(0)
    private let answered = Atomic<Int>(0)
    private let answerBytes = Atomic<Int>(0)

    init(
        tokens: Tokens,
        fallbackZone: String,
        limiter: RateLimiter?,
        maximumInFlightBytes: Int,
        holder: ProducerHolder,
        readiness: Readiness,
        metrics: IngestMetrics,
        time: any TimeSource
    ) {
        self.tokens = tokens
        self.fallbackZone = fallbackZone
        self.limiter = limiter
        self.maximumInFlightBytes = maximumInFlightBytes
        self.holder = holder
        self.readiness = readiness
        self.metrics = metrics
        self.time = time
    }

    /// What is kept of the answers that wait for acknowledgement; their records are counted by the producer.
    var heldBytes: Int { answerBytes.load(ordering: .relaxed) }

    /// An answer begins to wait, or (with less than zero) ends. Most hold nothing.
    func hold(_ bytes: Int) {
        if bytes != 0 { answerBytes.wrappingAdd(bytes, ordering: .relaxed) }
    }

    func countRequest() { requests.wrappingAdd(1, ordering: .relaxed) }
    func countAnswered() { answered.wrappingAdd(1, ordering: .relaxed) }

    /// Takes the counts since the last call. A request that was counted before may be answered after, so the answers
    /// are cut to the requests and the rest is kept for the next time.
    func takeCounts() -> (requests: Int, answered: Int) {
        let requests = requests.exchange(0, ordering: .relaxed)
        let all = answered.exchange(0, ordering: .relaxed)
        let counted = min(all, requests)
        answered.wrappingAdd(all - counted, ordering: .relaxed)
        return (requests, counted)
    }

    /// Undoes `takeCounts`, for counts that reached nobody.
    func putBack(_ counts: (requests: Int, answered: Int)) {
        requests.wrappingAdd(counts.requests, ordering: .relaxed)
        answered.wrappingAdd(counts.answered, ordering: .relaxed)
    }
}
