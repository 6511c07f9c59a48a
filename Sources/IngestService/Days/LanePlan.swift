import Domain
public import MessageContract

/// The records that a request becomes: at most one per lane.
public struct LanePlan: Sendable {
    public struct Record: Hashable, Sendable {
        public var lane: Lane
        public var value: [UInt8]
    }

    private var first: Record?
    private var second: Record?

    public var records: [Record] { [first, second].compactMap { $0 } }

    /// An on-device source always gives a live record, even an empty one, which proves that the phone is awake: unless
    /// every date was refused, since then nothing says that this is its day.
    ///
    /// `text` is what a record's text of all of the request's days would be, for those who have it.
    public init(
        _ request: borrowing DaysRequest,
        _ writer: DaysRecordWriter = DaysRecordWriter(),
        taking text: DaysRecordText? = nil
    ) throws(RequestProblem) {
        let provesAwake = request.source.kind == .onDevice && request.hasGoodDate
        let oldestLive = request.today.advanced(by: -Lane.liveDays)
        // What phones send all day long.
        if Self.areLive(request.days.span, oldestLive) {
            guard !request.days.isEmpty || provesAwake else { return }
            try add(.live, text == nil ? request.days : [], request, writer, text)
            return
        }
        let live = request.days.filter { $0.date >= oldestLive }
        if !live.isEmpty || provesAwake { try add(.live, live, request, writer) }
        try add(.history, request.days.filter { $0.date < oldestLive }, request, writer)
    }

    private static func areLive(_ days: Span<DaysRecord.Day>, _ oldestLive: CalendarDay) -> Bool {
        for index in days.indices where days[index].date < oldestLive { return false }
        return true
    }

    private mutating func add(
        _ lane: Lane,
        _ days: [DaysRecord.Day],
        _ request: borrowing DaysRequest,
        _ writer: DaysRecordWriter,
        _ text: DaysRecordText? = nil
    ) throws(RequestProblem) {
        let content = DaysRecord(
            source: request.source,
            origin: request.origin,
            observedAt: request.observedAt,
            timeZone: request.timeZone,
            localDate: request.localDate,
            days: days
        )
        let value = writer.encode(content, taking: text)
        guard value.count <= RecordLimits.valueBytes else { throw .tooLarge }
        let record = Record(lane: lane, value: value)
        if first == nil { first = record } else { second = record }
    }

    /// The records as the producer takes them, and the answer to them.
    func plan(for user: UserID, answer: any RouteAnswer) -> RoutePlan {
        func record(_ record: Record) -> RoutePlan.Record {
            .init(topic: record.lane.topic, schema: .days1, keyedBy: .user(user), value: record.value)
        }
        return RoutePlan(first.map(record), second.map(record), answer: answer)
    }
}
