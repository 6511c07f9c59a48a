import Authentication
import Domain
import HTTPServer
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import TimeZones

/// Answers the public routes of one event loop: decides, hands records to Kafka, and answers when every one of them is
/// acknowledged (D1).
///
/// `@unchecked Sendable`: made before the loop runs, then used on the loop's thread alone.
final class DaysDoor: HTTPRequestHandler, @unchecked Sendable {
    private let index: Int
    private let state: DoorState
    private let days: DaysHandler
    private var events = EventIDs()
    private var table = PendingTable()
    private weak var loop: HTTPEventLoop?
    /// By route, then by status from 200 on.
    private var requestCounters = [[Counter?]](repeating: [], count: Route.Name.allCases.count)
    private var refusalCounters: [String: Counter] = [:]
    /// Told when the producer has failed for good.
    private let onFatal: @Sendable (KafkaProducer) -> Void

    init(index: Int, state: DoorState, onFatal: @escaping @Sendable (KafkaProducer) -> Void) throws {
        self.index = index
        self.state = state
        self.onFatal = onFatal
        let tokens = state.tokens
        let verifier = try TokenVerifier(tokens.policy, keys: tokens.keys, remembering: tokens.remembered)
        days = try DaysHandler(verifier: verifier, zones: ZoneTable(), fallbackZone: state.fallbackZone)
    }

    func loopStarted(_ loop: HTTPEventLoop) { self.loop = loop }

    func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
        guard let route = Route(path: request.path) else { return .answer(refuse(.notFound, .none)) }
        guard request.method == .post else {
            var response = refuse(.methodNotAllowed, route.name)
            response.headers.append(.allow("POST"))
            return .answer(response)
        }
        state.countRequest()
        do throws(RequestProblem) {
            return try accept(request, route, exchange)
        } catch {
            return .answer(refuse(error, route.name))
        }
    }

    func exchangeAbandoned(_ exchange: HTTPExchangeID) {
        if table.close(exchange) != nil { state.metrics.waiting.add(-1) }
    }

    func exchangeExpired(_ exchange: HTTPExchangeID) -> HTTPResponse {
        let pending = table.close(exchange)
        if pending != nil { state.metrics.waiting.add(-1) }
        return refuse(.notConfirmed, pending?.route ?? .none)
    }

    private func accept(
        _ request: borrowing HTTPRequest,
        _ route: Route,
        _ exchange: HTTPExchangeID
    ) throws(RequestProblem) -> HTTPDisposition {
        guard state.readiness.isDoorOpen else { throw .notReady }
        guard Route.isJSON(contentType: request.header(.contentType)) else { throw .unsupportedMediaType }
        let receivedAt = Instant(microseconds: state.time.wallMicroseconds())
        var call = DaysHandler.Call(
            authorization: request.header(.authorization),
            headerZone: request.header(.timeZone),
            paddedBody: request.body,
            isStrict: Route.isStrict(query: request.query),
            receivedAt: receivedAt,
            event: events.next(at: receivedAt)
        )
        if case .userDays(let user) = route { call.target = user }
        let accepted = try days.handle(call)
        guard !accepted.records.isEmpty else {
            return .answer(confirm(accepted.answer, positions: [], route.name))
        }
        let pending = PendingTable.Pending(
            answer: accepted.answer,
            route: route.name,
            producedAt: state.time.monotonicNanoseconds(),
            outstanding: accepted.records.count
        )
        var traceparent = request.header(.traceparent)
        if let given = traceparent, !Traceparent.isValid(given) { traceparent = nil }
        try produce(accepted, route, exchange, traceparent)
        table.open(exchange, pending)
        state.metrics.waiting.add(1)
        return .later(within: state.deadline)
    }

    private func produce(
        _ accepted: DaysHandler.Accepted,
        _ route: Route,
        _ exchange: HTTPExchangeID,
        _ traceparent: UnsafeRawBufferPointer?
    ) throws(RequestProblem) {
        var key: [UInt8] = []
        key.reserveCapacity(36)
        accepted.user.append(to: &key)
        var event: [UInt8] = []
        event.reserveCapacity(36)
        accepted.answer.event.append(to: &event)
        var received: [UInt8] = []
        received.reserveCapacity(27)
        accepted.receivedAt.append(to: &received)
        let producer = state.holder.producer
        let tag = RecordTag(loop: index, exchange: exchange).rawValue
        do {
            for record in accepted.records {
                try key.withUnsafeBytes { key in
                    try record.value.withUnsafeBytes { value in
                        try producer.produce(topicIndex: record.lane.topicIndex, key: key, value: value, tag: tag) {
                            writer in
                            writer.add(HeaderName.schema, Schema.days1.id)
                            event.withUnsafeBytes { writer.add(HeaderName.eventID, $0) }
                            received.withUnsafeBytes { writer.add(HeaderName.receivedAt, $0) }
                            writer.add(HeaderName.route, route.name.text)
                            if let traceparent { writer.add(HeaderName.traceparent, traceparent) }
                        }
                    }
                }
            }
        } catch let error as KafkaError {
            // Of two records the first may be on its way: without an entry in the table its report means nothing.
            if error.isFatal || producer.fatalError != nil { onFatal(producer) }
            if error.isRecordTooLarge { throw .tooLarge }
            throw error.isQueueFull ? .queueFull : .notConfirmed
        } catch {
            throw .notConfirmed
        }
    }

    /// Takes a delivery report of this loop's records. On the loop's thread.
    func deliver(_ report: DeliveryReport) {
        let exchange = RecordTag(rawValue: report.tag).exchange
        let isAcknowledged = report.error == nil
        let counters = isAcknowledged ? state.metrics.acknowledged : state.metrics.failed
        if counters.indices.contains(report.topicIndex) { counters[report.topicIndex].increment() }
        var position: DaysAnswer.Position?
        if isAcknowledged, state.holder.topics.indices.contains(report.topicIndex) {
            position = DaysAnswer.Position(
                topic: state.holder.topics[report.topicIndex],
                partition: report.partition,
                offset: report.offset
            )
        }
        switch table.report(exchange, position) {
        case .nothing: break
        case .confirmed(let pending):
            state.metrics.waiting.add(-1)
            let span = state.time.monotonicNanoseconds() - pending.producedAt
            state.metrics.acknowledgementSeconds.observe(nanoseconds: span)
            loop?.answer(exchange, confirm(pending.answer, positions: pending.positions, pending.route))
        case .failed(let pending):
            state.metrics.waiting.add(-1)
            let isTooLarge = report.error?.isRecordTooLarge == true
            loop?.answer(exchange, refuse(isTooLarge ? .tooLarge : .notConfirmed, pending.route))
        }
    }

    private func confirm(
        _ answer: DaysAnswer,
        positions: [DaysAnswer.Position],
        _ route: Route.Name
    ) -> HTTPResponse {
        state.countAnswered()
        state.metrics.accepted.add(answer.accepted)
        state.metrics.skipped.add(answer.skipped.count)
        state.metrics.bad.add(answer.badDays)
        count(route, 202)
        return HTTPResponse(status: 202, body: answer.body(positions: positions))
    }

    private func refuse(_ problem: RequestProblem, _ route: Route.Name) -> HTTPResponse {
        count(route, problem.status)
        if let counter = refusalCounters[problem.code] {
            counter.increment()
        } else {
            let counter = state.metrics.refusals(reason: problem.code)
            refusalCounters[problem.code] = counter
            counter.increment()
        }
        return problem.response
    }

    private func count(_ route: Route.Name, _ status: Int) {
        let index = min(max(status - 200, 0), 399)
        while requestCounters[route.rawValue].count <= index { requestCounters[route.rawValue].append(nil) }
        if let counter = requestCounters[route.rawValue][index] { return counter.increment() }
        let counter = state.metrics.requests(route: route.text, status: status)
        requestCounters[route.rawValue][index] = counter
        counter.increment()
    }

    /// Answers all that still wait: the process ends, and whether Kafka has their records will not be known here.
    func giveUp() {
        for exchange in table.exchanges {
            guard let pending = table.close(exchange) else { continue }
            state.metrics.waiting.add(-1)
            loop?.answer(exchange, refuse(.notConfirmed, pending.route))
        }
    }
}

extension KafkaHeaderWriter {
    fileprivate func add(_ name: StaticString, _ value: StaticString) {
        add(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
    }
}

extension Lane {
    /// The topics' order in the producer.
    var topicIndex: Int {
        switch self {
        case .live: 0
        case .history: 1
        }
    }
}

extension RequestProblem {
    var response: HTTPResponse {
        var headers: [HTTPHeader] = []
        if let retryAfter { headers.append(.retryAfter(seconds: retryAfter)) }
        if status == 401 { headers.append(HTTPHeader("WWW-Authenticate", "Bearer")) }
        return HTTPProblem(status: status, code: code, title: title, detail: detail, members: members)
            .response(headers: headers)
    }

    static let notFound = RequestProblem(
        status: 404,
        code: "not_found",
        title: "There is nothing here",
        detail: "Post days to /v1/days."
    )

    static let methodNotAllowed = RequestProblem(
        status: 405,
        code: "method_not_allowed",
        title: "This method is not allowed here",
        detail: "Use POST."
    )

    static let unsupportedMediaType = RequestProblem(
        status: 415,
        code: "media_type",
        title: "This media type is not read here",
        detail: "Send JSON with Content-Type: application/json."
    )
}
