import Authentication
import Domain
import HTTPServer
import JSON
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import TimeZones

/// Answers the public routes of one event loop: decides, hands records to Kafka, and answers when every one of them is
/// acknowledged (D1).
///
/// `@unchecked Sendable`: made before the loop runs, then used on the loop's thread alone.
final class Door: HTTPRequestHandler, @unchecked Sendable {
    private let index: Int
    private let state: DoorState
    private let dispatcher: Dispatcher
    private var events = EventIDs()
    private var table = PendingTable()
    /// The loop holds this, and calls it while it runs; nothing here is called afterwards.
    private unowned(unsafe) var loop: HTTPEventLoop?
    /// Each answer is put together here.
    private var writer = JSONWriter(reserving: 1024)
    private var clock = ReceivedAtText()
    /// By route, a path that is none of ours last; then by status from 200 on.
    private var requestCounters: [[Counter?]]
    private var refusalCounters: [String: Counter] = [:]
    /// By the producer's topic index.
    private let topics: [String]
    private let acknowledged: [Counter]
    private let failed: [Counter]
    private var requestLog: RequestLog
    private let monitor: LoopMonitor
    /// The bucket of the user whose compressed body was asked for last gave its request: `bodyUse` comes right before
    /// `handle`.
    private var tookFromBucket = false
    /// Told when the producer has failed for good.
    private let onFatal: @Sendable (KafkaProducer) -> Void

    init(index: Int, state: DoorState, log: Log, onFatal: @escaping @Sendable (KafkaProducer) -> Void) throws {
        self.index = index
        self.state = state
        self.onFatal = onFatal
        topics = state.holder.topics
        acknowledged = state.metrics.acknowledged
        failed = state.metrics.failed
        requestLog = RequestLog(log)
        let time = state.time
        monitor = LoopMonitor(state.metrics, loop: index, now: { time.monotonicNanoseconds() })
        let tokens = state.tokens
        let verifier = try TokenVerifier(tokens.policy, keys: tokens.keys, remembering: tokens.remembered)
        let tools = try LoopTools(zones: ZoneTable(), fallbackZone: state.fallbackZone)
        dispatcher = try Dispatcher(verifier: verifier, tools: tools)
        requestCounters = Array(repeating: [], count: dispatcher.routes.count + 1)
    }

    private var noRoute: Int { dispatcher.routes.count }

    func loopStarted(_ loop: HTTPEventLoop) {
        self.loop = loop
        monitor.begin()
        loop.every(LoopMonitor.interval) { [weak loop, monitor] in
            if let loop { monitor.report(bytesReceived: loop.bytesReceived) }
        }
    }

    func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
        monitor.handled += 1
        switch dispatcher.match(request.method, request.path) {
        case .none: return .answer(refuse(.notFound, noRoute))
        case .wrongMethod(let allow, let route):
            var response = refuse(.methodNotAllowed, route)
            response.headers.append(.allow(allow))
            return .answer(response)
        case .route(let route, let segment):
            if case .read(let read) = dispatcher.routes[route].kind {
                let response = read()
                count(route, response.status)
                return .answer(response)
            }
            let receivedAt = Instant(microseconds: state.time.wallMicroseconds())
            let name = name(request, receivedAt)
            do throws(RequestProblem) {
                return try accept(request, route, segment, exchange, name, receivedAt)
            } catch {
                return .answer(refuse(error, route, name))
            }
        }
    }

    private func name(_ request: borrowing HTTPRequest, _ receivedAt: Instant) -> RequestName {
        var name = RequestName(event: events.next(at: receivedAt))
        if let given = request.header(.traceparent) { name.trace = Traceparent.traceID(given) }
        return name
    }

    func exchangeAbandoned(_ exchange: HTTPExchangeID) {
        guard let pending = table.close(exchange) else { return }
        stopWaiting(pending)
        // It left without an answer because we had none yet.
        state.countRequest()
    }

    func exchangeExpired(_ exchange: HTTPExchangeID) -> HTTPResponse {
        let pending = table.close(exchange)
        if let pending { stopWaiting(pending) }
        return refuse(.deadlinePassed, pending?.route ?? noRoute, pending?.name)
    }

    private func accept(
        _ request: borrowing HTTPRequest,
        _ route: Int,
        _ segment: UnsafeRawBufferPointer,
        _ exchange: HTTPExchangeID,
        _ name: RequestName,
        _ receivedAt: Instant
    ) throws(RequestProblem) -> HTTPDisposition {
        guard state.readiness.isDoorOpen else { throw .notReady }
        if request.method.hasBody, !RequestBytes.isJSON(contentType: request.header(.contentType)) {
            throw .unsupportedMediaType
        }
        let identity = try dispatcher.identify(
            route,
            authorization: request.header(.authorization),
            now: receivedAt
        )
        if !(request.isCompressed && tookFromBucket) { try checkRate(identity, segment) }
        let call = RouteCall(
            identity: identity,
            parameter: segment,
            query: request.query,
            headerZone: request.header(.timeZone),
            paddedBody: request.body,
            receivedAt: receivedAt,
            event: name.event
        )
        let plan = try dispatcher.plan(route, call)
        let count = plan.recordCount
        guard count > 0 else {
            confirm(plan.answer, positions: [], exchange, route, name)
            return .later
        }
        let producedAt = state.time.monotonicNanoseconds()
        let traceparent = name.trace == nil ? nil : request.header(.traceparent)
        try produce(plan, call, route, exchange, traceparent)
        table.open(
            exchange,
            PendingTable.Pending(answer: plan.answer, route: route, name: name, producedAt: producedAt),
            outstanding: count
        )
        state.metrics.waiting.add(1)
        state.hold(plan.answer.heldBytes)
        return .later
    }

    /// For each that was taken out of the table, however it ends.
    private func stopWaiting(_ pending: PendingTable.Pending) {
        state.metrics.waiting.add(-1)
        state.hold(-pending.answer.heldBytes)
    }

    /// One bucket for a user's own requests, and one for what connectors send of them.
    private func checkRate(_ identity: Identity, _ segment: UnsafeRawBufferPointer) throws(RequestProblem) {
        guard let limiter = state.limiter else { return }
        let isConnector = identity.role == .connector
        // A segment that is no user's id is refused by the route.
        guard let user = isConnector ? UserID(ascii: segment.octets.span) : identity.user else { return }
        let now = state.time.monotonicNanoseconds()
        switch limiter.take(user, kind: isConnector ? 1 : 0, now: now) {
        case .passes: break
        case .wait(let seconds): throw .rateLimited(seconds: seconds)
        }
    }

    private func produce(
        _ plan: RoutePlan,
        _ call: RouteCall,
        _ route: Int,
        _ exchange: HTTPExchangeID,
        _ traceparent: UnsafeRawBufferPointer?
    ) throws(RequestProblem) {
        let event = call.event
        let received = clock.text(of: call.receivedAt)
        let name = dispatcher.routes[route].path.text
        let producer = state.holder.producer
        var bytes = 0
        plan.forEachRecord { bytes += $0.keyedBy.count + $0.value.count }
        bytes += plan.answer.heldBytes
        // Loops that look at the same moment may pass the limit by a request each.
        guard producer.outstandingBytes + state.heldBytes + bytes <= state.maximumInFlightBytes else {
            throw .overloaded
        }
        let tag = RecordTag(loop: index, exchange: exchange).rawValue
        do {
            try plan.forEachRecord { record in
                let topic = record.topic.publishedIndex
                try record.keyedBy.withBytes { key in
                    try record.value.withUnsafeBytes { value in
                        try producer.produce(topicIndex: topic, key: key, value: value, tag: tag) { writer in
                            writer.add(HeaderName.schema, record.schema.id)
                            event.withText { writer.add(HeaderName.eventID, $0) }
                            received.span.withUnsafeBytes { writer.add(HeaderName.receivedAt, $0) }
                            writer.add(HeaderName.route, name)
                            if let traceparent { writer.add(HeaderName.traceparent, traceparent) }
                        }
                    }
                }
                state.metrics.recordBytes[topic].add(record.keyedBy.count + record.value.count)
            }
        } catch let error as KafkaError {
            // Of several records the first may be on their way: without an entry in the table their reports mean
            // nothing.
            if error.isFatal || producer.fatalError != nil { onFatal(producer) }
            if error.isRecordTooLarge { throw .tooLarge }
            throw error.isQueueFull ? .queueFull : .notProduced
        } catch {
            throw .notProduced
        }
    }

    /// Takes a delivery report of this loop's records, read at `now` of the monotonic clock. On the loop's thread.
    func deliver(_ report: DeliveryReport, now: Int64) {
        let exchange = RecordTag(rawValue: report.tag).exchange
        let isAcknowledged = report.error == nil
        var position: RecordPosition?
        if topics.indices.contains(report.topicIndex) {
            if isAcknowledged {
                acknowledged[report.topicIndex].increment()
                position = RecordPosition(
                    topic: topics[report.topicIndex],
                    partition: report.partition,
                    offset: report.offset
                )
            } else {
                failed[report.topicIndex].increment()
            }
        }
        switch table.report(exchange, position) {
        case .nothing: break
        case .confirmed(let pending):
            stopWaiting(pending)
            state.metrics.acknowledgementSeconds.observe(nanoseconds: max(0, now - pending.producedAt))
            confirm(pending.answer, positions: pending.positions, exchange, pending.route, pending.name)
        case .failed(let pending):
            stopWaiting(pending)
            let isTooLarge = report.error?.isRecordTooLarge == true
            loop?.answer(exchange, refuse(isTooLarge ? .tooLarge : .notAcknowledged, pending.route, pending.name))
        }
    }

    private func confirm(
        _ answer: any RouteAnswer,
        positions: RecordPositions,
        _ exchange: HTTPExchangeID,
        _ route: Int,
        _ name: RequestName
    ) {
        state.countRequest()
        state.countAnswered()
        answer.count(in: state.metrics)
        let status = answer.status
        count(route, status)
        note(name, route, status, nil)
        writer.reset()
        answer.writeBody(positions, into: &writer)
        writer.withBytes { loop?.answer(exchange, status: status, body: $0) }
    }

    private func refuse(_ problem: RequestProblem, _ route: Int, _ name: RequestName? = nil) -> HTTPResponse {
        if problem.isOurs { state.countRequest() }
        count(route, problem.status)
        note(name, route, problem.status, problem.code)
        let reason = problem.reason ?? problem.code
        if let counter = refusalCounters[reason] {
            counter.increment()
        } else {
            let counter = state.metrics.refusals(reason: reason)
            refusalCounters[reason] = counter
            counter.increment()
        }
        return problem.response(of: name?.event)
    }

    private func note(_ name: RequestName?, _ route: Int, _ status: Int, _ code: String?) {
        guard requestLog.writes(status) else { return }
        let now = state.time.monotonicNanoseconds()
        requestLog.note(name, route: routeName(route), status: status, code: code, now: now)
    }

    private func routeName(_ route: Int) -> StaticString {
        route < noRoute ? dispatcher.routes[route].path.text : "none"
    }

    private func count(_ route: Int, _ status: Int) {
        let index = min(max(status - 200, 0), 399)
        while requestCounters[route].count <= index { requestCounters[route].append(nil) }
        if let counter = requestCounters[route][index] { return counter.increment() }
        let counter = state.metrics.requests(route: routeName(route), status: status)
        requestCounters[route][index] = counter
        counter.increment()
    }

    /// Whoever is refused without a look at the body is refused before it is decompressed: some kilobytes hold megabytes.
    func bodyUse(_ request: borrowing HTTPRequest) -> HTTPBodyUse {
        tookFromBucket = false
        guard case .route(let route, let segment) = dispatcher.match(request.method, request.path),
            dispatcher.routes[route].isWrite, request.method.hasBody
        else { return .ignore }
        let now = Instant(microseconds: state.time.wallMicroseconds())
        do throws(RequestProblem) {
            guard state.readiness.isDoorOpen else { throw .notReady }
            guard RequestBytes.isJSON(contentType: request.header(.contentType)) else { throw .unsupportedMediaType }
            // It is asked for again when the request is handled, and then remembered.
            let identity = try dispatcher.identify(route, authorization: request.header(.authorization), now: now)
            try checkRate(identity, segment)
            tookFromBucket = true
            return .read
        } catch {
            return .answer(refuse(error, route, name(request, now)))
        }
    }

    /// Answers all that still wait: the process ends, and whether Kafka has their records will not be known here.
    func giveUp() {
        for exchange in table.exchanges {
            guard let pending = table.close(exchange) else { continue }
            stopWaiting(pending)
            loop?.answer(exchange, refuse(.stopped, pending.route, pending.name))
        }
    }
}

extension KafkaHeaderWriter {
    fileprivate func add(_ name: StaticString, _ value: StaticString) {
        add(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
    }
}

extension Topic {
    /// The topics that ingest writes to, in the order of the producer's.
    static let published: [Topic] = [.daysLive, .daysHistory, .points, .devices, .accounts]

    /// Its place in `published`; one that is not written to has none.
    var publishedIndex: Int {
        switch self {
        case .daysLive: 0
        case .daysHistory: 1
        case .points: 2
        case .devices: 3
        case .accounts: 4
        case .deadLetters: -1
        }
    }
}
