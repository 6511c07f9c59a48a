import Domain
import MessageContract

/// The date of the tests' batches.
let batchDay = CalendarDay(daysSinceEpoch: 20_600)

/// A decoded record of days, by how many days ago they were.
///
/// - Parameters:
///   - user: whose it is.
///   - minute: when it was received.
///   - source: who sends it.
///   - closed: whether its days were over when they were read; nil: as on `batchDay`, all but that one.
///   - tie: tells records of one time apart.
///   - days: how long ago, and what was read.
/// - Returns: the record.
func record(
    of user: UserID = UserID(high: 1, low: 1),
    minute: Int,
    from source: Source = .appleHealth,
    closed: Bool? = nil,
    tie: UInt64 = 0,
    _ days: [(Int, MetricValues)]
) -> DecodedDays {
    let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minute * 60)
    let event = EventID(high: 0, low: tie)
    let version = Version(observedAt: nil, receivedAt: received, event: event)
    return DecodedDays(
        user: user,
        source: source,
        origin: "",
        event: event,
        receivedAt: received,
        version: version,
        localDate: batchDay,
        readings: days.map {
            Reading(day: batchDay.advanced(by: -$0.0), values: $0.1, version: version, closed: closed ?? ($0.0 > 0))
        }
    )
}
