import Foundation

/// A record as the log holds it.
struct LogRecord: Sendable {
    let topic: String
    let partition: Int32
    let offset: Int64
    let timestampMilliseconds: Int64
    let key: [UInt8]?
    let value: [UInt8]?
    let headers: [(name: String, value: [UInt8]?)]

    var place: String { "\(topic)/\(partition)/\(offset)" }

    func header(_ name: String) -> String? {
        headers.last { $0.name == name }?.value.map { String(decoding: $0, as: UTF8.self) }
    }
}

/// Reads records by the documents alone: with Foundation's JSON, and no code of the product. For one thread.
final class ModelDecoder {
    enum Content {
        case days(Days)
        case account(Change)
        case device(Device)
        case heartbeat
        case poison
    }

    struct Days {
        let user: String
        let source: Int
        let origin: String
        let receivedAt: Int64
        let version: Int64
        let localDate: Int
        let days: [(date: Int, values: [Int: Int])]
    }

    struct Change {
        enum Kind {
            case delete
            case disconnect(source: Int, removesData: Bool)
            /// 0 takes the pin away.
            case preference(metric: Int, source: Int)
        }

        let user: String
        let kind: Kind
        let receivedAt: Int64
        let version: Int64
    }

    struct Device {
        let hash: String
        let user: String
        /// All that a sender has to know, as one text; nil withdraws the registration.
        let details: String?
        let version: Int64
    }

    private struct Poison: Error {}

    private let believesAppendTimes: Bool
    private var knownDays: [String: Int] = [:]

    init(believesAppendTimes: Bool) {
        self.believesAppendTimes = believesAppendTimes
    }

    func decode(_ record: LogRecord) -> Content {
        do {
            guard let schema = record.header("schema") else { return .poison }
            let topic = ["accounts", "devices"].first { record.topic.contains($0) } ?? "days"
            let received = try Self.microseconds(record.header("received-at"))
            if believesAppendTimes && received > record.timestampMilliseconds * 1000 + 300_000_000 { return .poison }
            switch (schema, topic) {
            case ("heartbeat/1", "days"): return .heartbeat
            case ("days/1", "days"): return .days(try days(record, received))
            case ("account/1", "accounts"): return .account(try change(record, received))
            case ("device/1", "devices"): return .device(try device(record, received))
            default: return .poison
            }
        } catch {
            return .poison
        }
    }

    private func days(_ record: LogRecord, _ received: Int64) throws -> Days {
        let (user, tie) = try identity(record)
        let object = try object(record)
        guard let source = (object["source"] as? String).flatMap({ ModelSource.names.firstIndex(of: $0) }), source > 0,
            let list = object["days"] as? [Any], list.count <= 400
        else { throw Poison() }
        var observed = received
        if let text = object["observed_at"], !(text is NSNull) { observed = try Self.microseconds(text as? String) }
        let effective = max(min(observed, received), Self.beginning)
        var localDate = Int(effective / 86_400_000_000)
        if let text = object["local_date"], !(text is NSNull) { localDate = try day(of: text as? String) }
        return Days(
            user: user,
            source: source,
            origin: object["origin"] as? String ?? "",
            receivedAt: received,
            version: Self.version(at: effective, tie: tie),
            localDate: localDate,
            days: try list.map(day)
        )
    }

    private func day(_ item: Any) throws -> (date: Int, values: [Int: Int]) {
        guard let members = item as? [String: Any] else { throw Poison() }
        var values: [Int: Int] = [:]
        for (number, metric) in ModelMetric.all.enumerated() {
            guard let member = members[metric.name], !(member is NSNull) else { continue }
            guard let value = (member as? NSNumber)?.doubleValue else { throw Poison() }
            if value == 0 && metric.refusesZero { continue }
            guard metric.range.contains(value), !metric.isWhole || value == value.rounded() else { throw Poison() }
            values[number] = Int((value * 10).rounded())
        }
        return (try day(of: members["date"] as? String), values)
    }

    private func day(of text: String?) throws -> Int {
        if let text, let known = knownDays[text] { return known }
        let day = try Self.day(text)
        if let text { knownDays[text] = day }
        return day
    }

    private func change(_ record: LogRecord, _ received: Int64) throws -> Change {
        let (user, tie) = try identity(record)
        let object = try object(record, atMost: 16_384)
        let source = (object["source"] as? String).flatMap { ModelSource.names.firstIndex(of: $0) }
        let kind: Change.Kind
        switch object["kind"] as? String {
        case "delete": kind = .delete
        case "disconnect":
            guard let source, source > 0 else { throw Poison() }
            kind = .disconnect(source: source, removesData: object["data"] as? Bool ?? false)
        case "preference":
            guard let metric = ModelMetric.all.firstIndex(where: { $0.name == object["metric"] as? String }) else {
                throw Poison()
            }
            kind = .preference(metric: metric, source: source ?? 0)
        default: throw Poison()
        }
        return Change(
            user: user,
            kind: kind,
            receivedAt: received,
            version: Self.version(at: max(received, Self.beginning), tie: tie)
        )
    }

    private func device(_ record: LogRecord, _ received: Int64) throws -> Device {
        let object = try object(record, atMost: 16_384)
        guard let hash = record.key.map({ String(decoding: $0, as: UTF8.self) }), hash.count == 64,
            let user = object["user"] as? String, UUID(uuidString: user) != nil
        else { throw Poison() }
        var details: String?
        switch object["kind"] as? String {
        case "withdraw": break
        case "register":
            guard object["token"] is String, object["platform"] is String, object["environment"] is String else {
                throw Poison()
            }
            let names = ["token", "platform", "environment", "app_id", "app_version", "os_version", "time_zone"]
            details = names.compactMap { object[$0] as? String }.joined(separator: "/")
        default: throw Poison()
        }
        let version = Self.version(at: max(received, Self.beginning), tie: try tie(record))
        return Device(hash: hash, user: user.lowercased(), details: details, version: version)
    }

    /// The user of the key, and what breaks ties.
    private func identity(_ record: LogRecord) throws -> (user: String, tie: Int64) {
        guard let key = record.key.map({ String(decoding: $0, as: UTF8.self) }), UUID(uuidString: key) != nil else {
            throw Poison()
        }
        return (key.lowercased(), try tie(record))
    }

    /// The last twelve bits of the event id.
    private func tie(_ record: LogRecord) throws -> Int64 {
        guard let event = record.header("event-id"), UUID(uuidString: event) != nil,
            let tie = Int64(event.suffix(3), radix: 16)
        else { throw Poison() }
        return tie
    }

    /// Of days twice as much is read as ingest writes.
    private func object(_ record: LogRecord, atMost limit: Int = 1_800_000) throws -> [String: Any] {
        guard let value = record.value, value.count <= limit,
            let object = try JSONSerialization.jsonObject(with: Data(value)) as? [String: Any]
        else { throw Poison() }
        return object
    }

    // MARK: Times

    /// 2020-01-01 in microseconds since 1970.
    static let beginning: Int64 = 1_577_836_800_000_000

    static func version(at microseconds: Int64, tie: Int64) -> Int64 {
        max(1, max(0, microseconds - beginning) << 12 | tie)
    }

    /// Days since 1970 of `YYYY-MM-DD`.
    static func day(_ text: String?) throws -> Int {
        let parts = (text ?? "").split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard parts.count == 3, let year = parts[0], let month = parts[1], let day = parts[2],
            (1...12).contains(month), (1...31).contains(day), year >= 1
        else { throw Poison() }
        var components = DateComponents()
        (components.year, components.month, components.day) = (year, month, day)
        guard let date = calendar.date(from: components), calendar.component(.day, from: date) == day else {
            throw Poison()
        }
        return Int((date.timeIntervalSince1970 / 86_400).rounded())
    }

    static func text(ofDay day: Int) -> String {
        let parts = calendar.dateComponents(
            [.year, .month, .day],
            from: Date(timeIntervalSince1970: Double(day) * 86_400)
        )
        return String(format: "%04d-%02d-%02d", parts.year ?? 0, parts.month ?? 0, parts.day ?? 0)
    }

    /// Microseconds since 1970 of an RFC 3339 time.
    static func microseconds(_ text: String?) throws -> Int64 {
        let text = text ?? ""
        let match = try pattern.wholeMatch(in: text)
        guard let match, let hour = Int64(match.2), let minute = Int64(match.3), let second = Int64(match.4) else {
            throw Poison()
        }
        let day = Int64(try day(String(match.1)))
        let fraction = Int64(((match.5 ?? "") + "000000").prefix(6)) ?? 0
        var offset: Int64 = 0
        if match.6 != "Z", match.6 != "z" {
            guard let hours = Int64(match.6.dropFirst().prefix(2)), let minutes = Int64(match.6.suffix(2)) else {
                throw Poison()
            }
            offset = (hours * 60 + minutes) * (match.6.hasPrefix("-") ? -1 : 1)
        }
        return (((day * 24 + hour) * 60 + minute - offset) * 60 + second) * 1_000_000 + fraction
    }

    private static var pattern: Regex<(Substring, Substring, Substring, Substring, Substring, Substring?, Substring)> {
        /(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})/
    }

    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .gmt
        return calendar
    }()
}
