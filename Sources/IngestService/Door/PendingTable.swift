import HTTPServer

/// Requests that wait for delivery reports, by their exchange. One loop's own.
struct PendingTable {
    struct Pending {
        var answer: any RouteAnswer
        /// The route's index.
        var route: Int
        var name: RequestName
        /// On the monotonic clock, in nanoseconds.
        var producedAt: Int64
        var positions = RecordPositions()
    }

    enum Outcome {
        /// Other reports are to come, or the exchange is gone: expired, abandoned or answered.
        case nothing
        /// The last report: everything is acknowledged.
        case confirmed(Pending)
        /// A record was not acknowledged: the request is answered so at once, whatever the others do.
        case failed(Pending)
    }

    private struct Slot {
        var exchange = HTTPExchangeID(rawValue: 0)
        /// Delivery reports that are still to come; zero: nobody waits in this slot.
        var outstanding = 0
        /// Not nil as long as somebody waits.
        var pending: Pending?

        /// Takes the position of a record, in place; whether it was the last.
        mutating func note(_ position: RecordPosition) -> Bool {
            pending?.positions.append(position)
            outstanding -= 1
            return outstanding == 0
        }
    }

    private var slots: [Slot] = []
    private(set) var count = 0

    /// `outstanding` delivery reports, one at least, are to come.
    mutating func open(_ exchange: HTTPExchangeID, _ pending: consuming Pending, outstanding: Int) {
        while slots.count <= exchange.slot { slots.append(Slot()) }
        if slots[exchange.slot].outstanding == 0 { count += 1 }
        slots[exchange.slot] = Slot(exchange: exchange, outstanding: max(1, outstanding), pending: pending)
    }

    /// Forgets an exchange; reports that still come for it do nothing.
    @discardableResult
    mutating func close(_ exchange: HTTPExchangeID) -> Pending? {
        guard isOpen(exchange) else { return nil }
        return take(exchange.slot)
    }

    /// Takes a delivery report; a nil position stands for a record that was not acknowledged.
    mutating func report(_ exchange: HTTPExchangeID, _ position: RecordPosition?) -> Outcome {
        guard isOpen(exchange) else { return .nothing }
        guard let position else { return take(exchange.slot).map { .failed($0) } ?? .nothing }
        guard slots[exchange.slot].note(position) else { return .nothing }
        return take(exchange.slot).map { .confirmed($0) } ?? .nothing
    }

    /// All that are open.
    var exchanges: [HTTPExchangeID] { slots.compactMap { $0.outstanding == 0 ? nil : $0.exchange } }

    private mutating func take(_ slot: Int) -> Pending? {
        count -= 1
        slots[slot].outstanding = 0
        return slots[slot].pending.take()
    }

    private func isOpen(_ exchange: HTTPExchangeID) -> Bool {
        let slot = exchange.slot
        return slot < slots.count && slots[slot].exchange == exchange && slots[slot].outstanding > 0
    }
}

/// What a record's delivery report comes back with: whose request it was, or which heartbeat.
struct RecordTag: Hashable {
    /// A slot of an exchange stays below this.
    private static let slotBits: UInt64 = 24
    static let heartbeatLoop = 255

    let rawValue: UInt64

    init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    init(loop: Int, exchange: HTTPExchangeID) {
        rawValue = exchange.rawValue | UInt64(loop & 0xff) << Self.slotBits
    }

    init(heartbeatRound round: UInt32) {
        rawValue = UInt64(round) << 32 | UInt64(Self.heartbeatLoop) << Self.slotBits
    }

    var loop: Int { Int(rawValue >> Self.slotBits & 0xff) }
    var exchange: HTTPExchangeID { HTTPExchangeID(rawValue: rawValue & ~(0xff << Self.slotBits)) }
    var heartbeatRound: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }
}
