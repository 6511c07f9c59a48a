import Observability
import Synchronization

/// Why a process does not want work just now.
struct NotReadyReason: Hashable, Sendable {
    /// A short name for programs: letters, digits and `_`.
    let code: StaticText
    /// What is missing and what to do, for people.
    let detail: StaticText

    init(_ code: StaticString, _ detail: StaticString) {
        self.code = StaticText(code)
        self.detail = StaticText(detail)
    }
}

/// Whether this process wants requests. Any thread may ask; the keeper and the heartbeats tell.
///
/// The door and `/readyz` differ: while a broker is away or the process drains, `/readyz` says no, so that load
/// balancers turn to others, but a request that comes all the same is tried.
final class Readiness: Sendable {
    private struct State {
        var topics: NotReadyReason? = .topicsUnknown
        var heartbeat: NotReadyReason? = .noHeartbeat
        var clock: NotReadyReason?
        var isDraining = false
        var wasReady = false
    }

    private let state = Mutex(State())
    private let open = Atomic<Bool>(false)
    private let log: Log

    init(log: Log) {
        self.log = log
    }

    /// Requests are taken: everything was in order once, and the clock can be trusted.
    var isDoorOpen: Bool { open.load(ordering: .relaxed) }

    var reasons: [NotReadyReason] {
        state.withLock { state in
            [state.isDraining ? .draining : nil, state.topics, state.heartbeat, state.clock].compactMap { $0 }
        }
    }

    func set(topics: NotReadyReason?) { change { $0.topics = topics } }
    func set(heartbeat: NotReadyReason?) { change { $0.heartbeat = heartbeat } }
    func set(clock: NotReadyReason?) { change { $0.clock = clock } }
    func beginDraining() { change { $0.isDraining = true } }

    private func change(_ body: (inout State) -> Void) {
        let (before, after) = state.withLock { state in
            let before = state
            body(&state)
            if state.topics == nil, state.heartbeat == nil, state.clock == nil { state.wasReady = true }
            open.store(state.wasReady && state.clock == nil && state.topics != .weakTopics, ordering: .relaxed)
            return (before, state)
        }
        let wasReady = before.topics == nil && before.heartbeat == nil && before.clock == nil
        let isReady = after.topics == nil && after.heartbeat == nil && after.clock == nil
        if isReady, !wasReady { log.info("ready") }
        if !isReady, wasReady {
            let reason = after.topics ?? after.heartbeat ?? after.clock ?? .draining
            log.warning("not ready", [.reason: .constant(reason.code), .error: .constant(reason.detail)])
        }
    }
}

extension NotReadyReason {
    static let draining = NotReadyReason("draining", "The process is stopping.")
    static let topicsUnknown = NotReadyReason(
        "topics_unknown",
        "Kafka has not told about the topics: check the brokers, and that daybook migrate has made the topics."
    )
    static let weakTopics = NotReadyReason(
        "weak_topics",
        "A topic could lose acknowledged records: correct it as the log says, or allow it with DAYBOOK_ALLOW_WEAK_TOPICS."
    )
    static let noHeartbeat = NotReadyReason(
        "kafka_unconfirmed",
        "Kafka does not acknowledge heartbeats: check the brokers and how many replicas are in sync."
    )
    static let clockOff = NotReadyReason(
        "clock",
        "This machine's clock and the brokers' are too far apart: check NTP on both."
    )
}
