public import Authentication
public import Domain
import JSON
import MessageContract
public import TimeZones

/// Decides what a request of `POST /v1/days` becomes, without a socket and without Kafka. Belongs to one thread.
public final class DaysHandler {
    /// What a request says, apart from HTTP. The bytes live as long as the call.
    public struct Call {
        public var authorization: UnsafeRawBufferPointer?
        public var headerZone: UnsafeRawBufferPointer?
        /// `JSONParser.padding` more bytes may be read behind it.
        public var paddedBody: UnsafeRawBufferPointer
        /// Any bad day refuses the whole request.
        public var isStrict = false
        /// The user of the path, for connectors; nil: the token's own.
        public var target: UserID?
        public var receivedAt: Instant
        public var event: EventID

        public init(
            authorization: UnsafeRawBufferPointer?,
            headerZone: UnsafeRawBufferPointer? = nil,
            paddedBody: UnsafeRawBufferPointer,
            isStrict: Bool = false,
            target: UserID? = nil,
            receivedAt: Instant,
            event: EventID
        ) {
            self.authorization = authorization
            self.headerZone = headerZone
            self.paddedBody = paddedBody
            self.isStrict = isStrict
            self.target = target
            self.receivedAt = receivedAt
            self.event = event
        }
    }

    /// Records to be written, and what is answered once all of them are acknowledged. Without records: at once.
    public struct Accepted: Sendable {
        public var user: UserID
        public var records: [LanePlan.Record]
        public var answer: DaysAnswer
        public var receivedAt: Instant
    }

    private let verifier: TokenVerifier
    private let decoder: DaysRequestDecoder
    private let writer = DaysRecordWriter()
    private let fallbackZone: String

    public init(verifier: TokenVerifier, zones: ZoneTable, fallbackZone: String) throws {
        self.verifier = verifier
        self.fallbackZone = fallbackZone
        decoder = try DaysRequestDecoder(zones: zones)
    }

    public func handle(_ call: Call) throws(RequestProblem) -> Accepted {
        let identity: Identity
        do {
            identity = try verifier.verify(authorization: call.authorization, now: call.receivedAt)
        } catch {
            throw .unauthorized(error)
        }
        let isConnector = try Self.checkRole(identity, target: call.target)
        let context = DaysContext(
            receivedAt: call.receivedAt,
            claimedZone: identity.timeZone,
            headerZone: call.headerZone,
            fallbackZone: fallbackZone
        )
        let request = try decoder.decode(padded: call.paddedBody, context)
        guard DaysRules.mayWrite(request.source, isConnector: isConnector) else { throw .forbiddenSource }
        guard request.badDays == 0 || (!call.isStrict && request.badDays < request.dayCount) else {
            throw .invalid(request.errors)
        }
        return Accepted(
            user: call.target ?? identity.user,
            records: try LanePlan(request, writer).records,
            answer: DaysAnswer(request, event: call.event),
            receivedAt: call.receivedAt
        )
    }

    /// A user writes their own days, a connector those of the user in the path.
    private static func checkRole(_ identity: Identity, target: UserID?) throws(RequestProblem) -> Bool {
        switch (identity.role, target) {
        case (.user, nil): false
        case (.connector, .some): true
        case (.user, .some), (.connector, nil), (.operator, _): throw .forbiddenRole
        }
    }
}

extension RequestProblem {
    static func unauthorized(_ error: AuthenticationError) -> RequestProblem {
        RequestProblem(status: 401, code: error.code.rawValue, title: "Not authenticated", detail: error.description)
    }

    static let forbiddenRole = RequestProblem(
        status: 403,
        code: "forbidden",
        title: "This token may not do this",
        detail: "Users post to /v1/days; connectors post to /v1/users/{id}/days."
    )
}
