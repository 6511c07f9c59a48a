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
    public init(_ request: DaysRequest) throws(RequestProblem) {
        let live = request.days.filter { Lane(day: $0.date, today: request.today) == .live }
        let provesAwake = request.source.kind == .onDevice && request.hasGoodDate
        if !live.isEmpty || provesAwake { try add(.live, live, request) }
        guard live.count < request.days.count else { return }
        try add(.history, request.days.filter { Lane(day: $0.date, today: request.today) == .history }, request)
    }

    private mutating func add(_ lane: Lane, _ days: [DaysRecord.Day], _ request: DaysRequest) throws(RequestProblem) {
        let record = DaysRecord(
            source: request.source,
            origin: request.origin,
            observedAt: request.observedAt,
            timeZone: request.timeZone,
            localDate: request.localDate,
            days: days
        )
        let value = record.encoded()
        guard value.count <= RecordLimits.valueBytes else { throw .tooLarge }
        records.append(Record(lane: lane, value: value))
    }
}
