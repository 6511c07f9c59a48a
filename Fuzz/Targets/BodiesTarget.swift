import Authentication
import Domain
import TimeZones

@testable import IngestService

/// All other routes' bodies: the first byte names the route.
final class BodiesTarget: FuzzTarget {
    private let dispatcher: Dispatcher
    private let writes: [Int]

    init() throws {
        let verifier = try TokenVerifier(TokenPolicy(hmacKeys: [Array(repeating: 7, count: 32)]))
        let tools = try LoopTools(zones: ZoneTable(), fallbackZone: "America/New_York")
        let dispatcher = try Dispatcher(verifier: verifier, tools: tools)
        writes = dispatcher.routes.indices.filter { dispatcher.routes[$0].isWrite }
        self.dispatcher = dispatcher
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        guard let first = input.first else { return }
        let route = writes[Int(first) % writes.count]
        let rest = UnsafeRawBufferPointer(rebasing: input[1...])
        // What stands before a first line end is path segment and query.
        let end = rest.firstIndex(of: 10) ?? 0
        let words = UnsafeRawBufferPointer(rebasing: rest[..<end])
        try withPadded(UnsafeRawBufferPointer(rebasing: rest[end...])) { body in
            for record in records(of: route, words: words, body: body) {
                try check(record.value.count <= 1_000_000, "a record is too large")
            }
        }
    }

    private func records(
        of route: Int,
        words: UnsafeRawBufferPointer,
        body: UnsafeRawBufferPointer
    ) -> [RoutePlan.Record] {
        let call = RouteCall(
            identity: Identity(user: FuzzSamples.user, role: dispatcher.routes[route].roles.first ?? .user),
            parameter: words,
            query: words,
            headerZone: words,
            paddedBody: body,
            receivedAt: FuzzSamples.now,
            event: FuzzSamples.event
        )
        do throws(RequestProblem) {
            let plan = try dispatcher.plan(route, call)
            _ = plan.answer.body(positions: [])
            return plan.records
        } catch {
            _ = error.response
            return []
        }
    }
}
