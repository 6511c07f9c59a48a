import Authentication
import Domain
import HTTPServer
import JSON
import MessageContract
import Testing
import TimeZones

@testable import IngestService

/// Sends requests through route table, token check and handler, without a socket and without Kafka.
struct Sending {
    static let policy = TokenPolicy(hmacKeys: [Array(secretText.utf8)])

    var user = UserID(high: 1, low: 2)
    var role = Role.user
    var platform: Platform?
    var claimedZone: String?
    var headerZone: String?
    var token: String?
    var now = IngestServiceTests.now
    var fallbackZone = "America/New_York"

    func send(_ method: String, _ target: String, _ body: String = "") throws -> Result<RoutePlan, RequestProblem> {
        let verifier = try TokenVerifier(Self.policy)
        let tools = try LoopTools(zones: ZoneTable(), fallbackZone: fallbackZone)
        let dispatcher = try Dispatcher(verifier: verifier, tools: tools)
        let minted = try TokenMinter(Self.policy).mint(
            subject: user.description,
            role: role,
            timeZone: claimedZone,
            platform: platform,
            now: now,
            validFor: 60
        )
        let path = Array(target.prefix { $0 != "?" }.utf8)
        let query = Array(target.drop { $0 != "?" }.dropFirst().utf8)
        let methods: [HTTPMethod] = [.get, .post, .put, .delete, .patch]
        let known = methods.first { $0.name == method } ?? .other
        return withPadded(body) { body in
            path.withUnsafeBytes { path in
                query.withUnsafeBytes { query in
                    Array("Bearer \(token ?? minted)".utf8).withUnsafeBytes { authorization in
                        Array((headerZone ?? "").utf8).withUnsafeBytes { zone in
                            do throws(RequestProblem) {
                                switch dispatcher.match(known, path) {
                                case .none: throw .notFound
                                case .wrongMethod: throw .methodNotAllowed
                                case .route(let route, let segment):
                                    let call = RouteCall(
                                        identity: try dispatcher.identify(
                                            route,
                                            authorization: authorization,
                                            now: now
                                        ),
                                        parameter: segment,
                                        query: query,
                                        headerZone: headerZone == nil ? nil : zone,
                                        paddedBody: body,
                                        receivedAt: now,
                                        event: event
                                    )
                                    return .success(try dispatcher.plan(route, call))
                                }
                            } catch {
                                return .failure(error)
                            }
                        }
                    }
                }
            }
        }
    }

    /// The status, then the answer's body or the problem's code and first error.
    func outcome(_ method: String, _ target: String, _ body: String = "") throws -> String {
        switch try send(method, target, body) {
        case .success(let plan):
            return "\(plan.answer.status) \(String(decoding: plan.answer.body(positions: []), as: UTF8.self))"
        case .failure(let problem):
            let error = problem.errors.first.map { " \($0.field) \($0.code)" } ?? ""
            return "\(problem.status) \(problem.code)\(error)"
        }
    }

    /// The days that a request's records hold, read as the aggregator reads them.
    func days(_ target: String, _ body: String) throws -> [DecodedDays] {
        let decoder = try DaysRecordDecoder()
        return try send("POST", target, body).get().records.map { record in
            try record.decode { try decoder.decode(key: $0, value: $1, headers: $2, appendTime: nil).get() }
        }
    }
}

extension RoutePlan.Record {
    func decode<Decoded>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, RecordHeaders) throws -> Decoded
    ) rethrows -> Decoded {
        try key.withUnsafeBytes { key in
            try value.withUnsafeBytes { value in
                try Array(schema.id.description.utf8).withUnsafeBytes { schema in
                    try Array(event.description.utf8).withUnsafeBytes { event in
                        try Array(now.description.utf8).withUnsafeBytes { received in
                            var headers = RecordHeaders()
                            headers.schema = schema
                            headers.eventID = event
                            headers.receivedAt = received
                            return try body(key, value, headers)
                        }
                    }
                }
            }
        }
    }

    var text: String { String(decoding: value, as: UTF8.self) }
}

var emptyRequest: DaysRequest {
    DaysCollector(source: .manual, zone: ("UTC", 0), receivedAt: now).request
}
