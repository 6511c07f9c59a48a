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
        var keys: NotReadyReason?
        var isDraining = false
        var wasReady = false

        var isInOrder: Bool { topics == nil && heartbeat == nil && clock == nil && keys == nil }
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
            [state.isDraining ? .draining : nil, state.topics, state.heartbeat, state.clock, state.keys]
                .compactMap { $0 }
        }
    }

    func set(topics: NotReadyReason?) { change { $0.topics = topics } }
    func set(heartbeat: NotReadyReason?) { change { $0.heartbeat = heartbeat } }
    func set(clock: NotReadyReason?) { change { $0.clock = clock } }
    func set(keys: NotReadyReason?) { change { $0.keys = keys } }
    func beginDraining() { change { $0.isDraining = true } }

    private func change(_ body: (inout State) -> Void) {
        let (before, after) = state.withLock { state in
            let before = state
            body(&state)
            if state.isInOrder { state.wasReady = true }
            open.store(state.wasReady && state.clock == nil && state.topics != .weakTopics, ordering: .relaxed)
            return (before, state)
        }
        if after.isInOrder, !before.isInOrder { log.info("ready") }
        if !after.isInOrder, before.isInOrder {
            let reason = after.topics ?? after.heartbeat ?? after.clock ?? after.keys ?? .draining
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
    static let noKeys = NotReadyReason(
        "keys_unknown",
        "No key for tokens is known yet: check that DAYBOOK_JWT_JWKS_URL answers, and with which error the log names."
    )
    static let clockOff = NotReadyReason(
        "clock",
        "This machine's clock and the brokers' are too far apart: check NTP on both."
    )
}
