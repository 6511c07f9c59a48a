import Authentication
import Domain
import HTTPServer
import JSON
import MessageContract
import TimeZones

/// What the handlers of one loop share: parsers and tables, which belong to one thread.
final class LoopTools {
    let days: DaysRequestDecoder
    let writer = DaysRecordWriter()
    let zones: ZoneTable
    /// For the bodies of all routes but those of days.
    let parser: JSONParser
    /// `DAYBOOK_FALLBACK_ZONE`; a name that the table knows.
    let fallbackZone: String

    init(zones: ZoneTable, fallbackZone: String) throws {
        self.zones = zones
        self.fallbackZone = fallbackZone
        days = try DaysRequestDecoder(zones: zones)
        parser = try JSONParser(maximumDepth: 8)
    }

    /// The body's top level.
    func object(_ call: RouteCall) throws(RequestProblem) -> JSONObject {
        let root: JSONValue
        do {
            root = try parser.parse(padded: call.paddedBody)
        } catch {
            throw .badJSON(error)
        }
        guard let object = root.object else { throw .badShape("", "The body must be an object.") }
        return object
    }

    /// The zone of the token's claim, else of the header, else the one given, with its offset at arrival.
    func zone(_ call: RouteCall, fallback: String) -> (name: String, offset: Int) {
        let zone = zones.resolve(claimed: call.identity.timeZone, header: call.headerZone, fallback: fallback)
        return (zone?.name ?? fallback, zone?.offset(at: call.receivedAt) ?? 0)
    }
}

extension ZoneTable {
    /// Claim and header are used if they name a zone of the table. Nil: the fallback does not either.
    func resolve(claimed: String?, header: UnsafeRawBufferPointer?, fallback: String) -> KnownZone? {
        if let claimed, let zone = zone(claimed) { return zone }
        if let header, let zone = zone(header.octets.span) { return zone }
        return zone(fallback)
    }
}

/// Finds a request's route and decides what it becomes, without a socket and without Kafka. Belongs to one thread.
final class Dispatcher {
    enum Match {
        /// An index of `routes`, and the path's variable segment.
        case route(Int, UnsafeRawBufferPointer)
        /// The path has other methods: the value of `Allow`, and the index of one of its routes.
        case wrongMethod(allow: String, Int)
        case none
    }

    let routes: [Route]
    private let verifier: TokenVerifier
    private let handlers: [Route.Handler?]

    init(verifier: TokenVerifier, tools: LoopTools, routes: [Route] = RouteTable.routes) throws {
        self.verifier = verifier
        self.routes = routes
        handlers = try routes.map { route in
            guard case .write(_, let handler) = route.kind else { return nil }
            return try handler(tools)
        }
    }

    func match(_ method: HTTPMethod, _ path: UnsafeRawBufferPointer) -> Match {
        for index in routes.indices {
            guard routes[index].method == method, let segment = routes[index].path.match(path) else { continue }
            return .route(index, segment)
        }
        let others = routes.indices.filter { routes[$0].path.match(path) != nil }
        guard let first = others.first else { return .none }
        return .wrongMethod(allow: others.map { routes[$0].method.name }.joined(separator: ", "), first)
    }

    /// Checks the token and its role for a route that writes.
    func identify(
        _ route: Int,
        authorization: UnsafeRawBufferPointer?,
        now: Instant
    ) throws(RequestProblem) -> Identity {
        let identity: Identity
        do {
            identity = try verifier.verify(authorization: authorization, now: now)
        } catch {
            throw .unauthorized(error)
        }
        let roles = routes[route].roles
        guard roles.contains(identity.role) else { throw .forbidden(roles: roles) }
        return identity
    }

    /// What a request of a route that writes becomes.
    func plan(_ route: Int, _ call: RouteCall) throws(RequestProblem) -> RoutePlan {
        guard let handler = handlers[route] else { throw .notFound }
        return try handler(call)
    }
}
