import Domain
public import MessageContract

/// The records that a request becomes: at most one per lane.
public struct LanePlan: Sendable {
    public struct Record: Hashable, Sendable {
        public var lane: Lane
        public var value: [UInt8]
    }

    public private(set) var records: [Record] = []

    /// An on-device source always gives a live record, even an empty one, which proves that the phone is awake: unless
    /// every date was refused, since then nothing says that this is its day.
    public init(_ request: DaysRequest, _ writer: DaysRecordWriter = DaysRecordWriter()) throws(RequestProblem) {
        let provesAwake = request.source.kind == .onDevice && request.hasGoodDate
        let oldestLive = request.today.advanced(by: -Lane.liveDays)
        // What phones send all day long.
        if request.days.allSatisfy({ $0.date >= oldestLive }) {
            if !request.days.isEmpty || provesAwake { try add(.live, request.days, request, writer) }
            return
        }
        let live = request.days.filter { $0.date >= oldestLive }
        if !live.isEmpty || provesAwake { try add(.live, live, request, writer) }
        try add(.history, request.days.filter { $0.date < oldestLive }, request, writer)
    }

    private mutating func add(
        _ lane: Lane,
        _ days: [DaysRecord.Day],
        _ request: DaysRequest,
        _ writer: DaysRecordWriter
    ) throws(RequestProblem) {
        let record = DaysRecord(
            source: request.source,
            origin: request.origin,
            observedAt: request.observedAt,
            timeZone: request.timeZone,
            localDate: request.localDate,
            days: days
        )
        let value = writer.encode(record)
        guard value.count <= RecordLimits.valueBytes else { throw .tooLarge }
        records.append(Record(lane: lane, value: value))
    }
}
