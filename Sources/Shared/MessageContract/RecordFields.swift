import Domain
import JSON

/// The members of a record of days, each at most once; unknown ones are ignored.
struct RecordFields {
    enum Member: UInt8 {
        case source, origin, observedAt, localDate, days

        init?(_ key: JSONText) {
            switch key.count {
            case 4 where key.equals("days"): self = .days
            case 6 where key.equals("source"): self = .source
            case 6 where key.equals("origin"): self = .origin
            case 10 where key.equals("local_date"): self = .localDate
            case 11 where key.equals("observed_at"): self = .observedAt
            default: return nil
            }
        }
    }

    private var source = JSONTextMember.nothing
    private var origin = JSONTextMember.nothing
    private var observedAt = JSONTextMember.nothing
    private var localDate = JSONTextMember.nothing
    private(set) var days: JSONValue?
    private var seen: UInt8 = 0

    /// Nothing is given yet.
    init() {}

    init(_ object: JSONObject) throws(PoisonReason) {
        var object = object
        while let (key, value) = object.next() {
            guard let member = Member(key) else { continue }
            guard set(member, JSONTextMember(value)) else { throw .duplicateKey }
            if member == .days { days = value }
        }
    }

    /// False where the member was given already.
    mutating func set(_ member: Member, _ field: JSONTextMember) -> Bool {
        guard seen & 1 << member.rawValue == 0 else { return false }
        seen |= 1 << member.rawValue
        switch member {
        case .source: source = field
        case .origin: origin = field
        case .observedAt: observedAt = field
        case .localDate: localDate = field
        case .days: break
        }
        return true
    }

    func readSource() throws(PoisonReason) -> Source {
        guard case .text(let text) = source else { throw .badSource }
        for candidate in Source.allCases where text.equals(candidate.name) { return candidate }
        throw .badSource
    }

    func readOrigin() throws(PoisonReason) -> String {
        switch origin {
        case .nothing: return ""
        case .text(let text) where text.count <= RecordLimits.originBytes:
            return text.isEmpty ? "" : String(decoding: text, as: UTF8.self)
        case .text, .somethingElse: throw .badOrigin
        }
    }

    func readObservedAt() throws(PoisonReason) -> Instant? {
        switch observedAt {
        case .nothing: return nil
        case .text(let text):
            guard let instant = Instant(rfc3339: text.span) else { throw .badObservedAt }
            return instant
        case .somethingElse: throw .badObservedAt
        }
    }

    /// A record without one counts in UTC; one that no zone can have is refused.
    func readLocalDate(at instant: Instant) throws(PoisonReason) -> CalendarDay {
        let inUTC = instant.day(secondsFromUTC: 0)
        switch localDate {
        case .nothing: return inUTC
        case .text(let text):
            guard let date = CalendarDay(ascii: text.span), abs(date.days(since: inUTC)) <= 1 else { throw .badDate }
            return date
        case .somethingElse: throw .badDate
        }
    }
}
