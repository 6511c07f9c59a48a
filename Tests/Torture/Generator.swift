import Foundation
import ServiceRuntime

/// What people, phones and connectors do, made of a seed: re-sends, late readings, duplicates, zeros, gaps, back-fills.
struct Generator {
    struct Post {
        let user: String
        let isConnector: Bool
        let body: String
    }

    struct Direct {
        enum Lane: Int, Sendable {
            case live, history, accounts, devices
        }

        let lane: Lane
        let key: [UInt8]
        let value: [UInt8]
        let headers: [(name: String, value: [UInt8]?)]
        /// Nil for that of the key.
        var partition: Int32?
        var oddity: Oddity?
    }

    private struct Connection: Hashable {
        let user: Int
        let source: String
        let origin: String
    }

    struct Shape {
        let source: String
        let isCloud: Bool
        let metrics: [(name: String, range: ClosedRange<Int>, isWhole: Bool)]
    }

    static let shapes: [Shape] = {
        let steps = (name: "steps", range: 1...200_000, isWhole: true)
        let energy = (name: "active_energy_kcal", range: 1...9000, isWhole: false)
        let sleep = (name: "sleep_minutes", range: 1...7000, isWhole: false)
        let heart = (name: "resting_heart_rate_bpm", range: 400...900, isWhole: false)
        return [
            Shape(
                source: "apple_health",
                isCloud: false,
                metrics: [
                    steps, energy, ("distance_m", 1...90_000, false), heart, sleep, ("hrv_sdnn_ms", 100...900, false),
                ]
            ),
            Shape(
                source: "health_connect",
                isCloud: false,
                metrics: [
                    steps, energy, sleep, ("flights_climbed", 10...300, true), ("exercise_minutes", 1...900, false),
                ]
            ),
            Shape(source: "manual", isCloud: false, metrics: [steps, ("water_ml", 1...40_000, false), sleep]),
            Shape(source: "checkin", isCloud: false, metrics: [sleep, ("mindful_minutes", 1...600, false)]),
            Shape(
                source: "garmin",
                isCloud: true,
                metrics: [
                    steps, energy, heart, ("spo2_percent", 800...1000, false), ("activity_score", 1...1000, false),
                ]
            ),
            Shape(
                source: "oura",
                isCloud: true,
                metrics: [sleep, heart, ("hrv_rmssd_ms", 100...900, false), ("activity_score", 1...1000, false)]
            ),
        ]
    }()

    private static let zones = ["UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin"]

    /// A user that keeps sending new origins; nobody deletes them, since a deletion would free some.
    private static let abuser = 0

    var random: SplitMix64
    let users: [String]
    let partitions: Int
    let group: String
    /// What is still to come before any kind comes again.
    var oddities: [Oddity] = []
    private let kinds: [Oddity]
    /// What each connection last said, by day (counted back from today) and metric, in tenths.
    private var said: [Connection: [Int: [String: Int]]] = [:]
    private var lastBodies: [Connection: String] = [:]
    private var direct: [Direct] = []

    /// - Parameters:
    ///   - seed: of everything that is chosen.
    ///   - group: tells apart users of generators that run over the same log; four hexadecimal digits.
    ///   - users: how many.
    ///   - partitions: of each topic.
    ///   - kinds: of odd records that are to come, all of them again and again.
    init(seed: UInt64, group: String, users: Int, partitions: Int, kinds: [Oddity]) {
        random = SplitMix64(seed: seed)
        self.group = group
        self.partitions = partitions
        self.kinds = kinds
        self.users = (0..<users).map { "0000\(group)-0000-4000-8000-\(String(format: "%012x", $0 + 1))" }
    }

    // MARK: Requests

    mutating func post() -> Post {
        // The first few are the busiest.
        let user = min(random.int(0...(users.count - 1)), random.int(0...(users.count - 1)))
        if user == Self.abuser { return abuse() }
        let shape = Self.shapes[random.int(0...(Self.shapes.count - 1))]
        let origin = random.chance(80) ? "" : random.pick(["watch", "phone"])
        let connection = Connection(user: user, source: shape.source, origin: origin)
        let choice = random.int(1...100)
        if choice <= 10, let body = lastBodies[connection] { return make(connection, shape, body) }
        var days = said[connection] ?? [:]
        var sent: [Int: [String: Int]] = [:]
        var age = random.chance(70) ? 0 : random.int(1...3600)
        switch choice {
        case ...65:
            // The same thirty days, two of them changed.
            for day in 0..<30 where days[day] == nil { days[day] = values(shape) }
            for _ in 0..<2 { days[random.int(0...29)] = values(shape) }
            for day in 0..<30 { sent[day] = days[day] }
            said[connection] = days
        case ...75:
            // Read earlier than what is known, and other values.
            age = random.int(60...3600)
            for _ in 0..<3 { sent[random.int(0...29)] = values(shape) }
        case ...88:
            // Some metrics of the last days only.
            for day in 0..<random.int(1...3) {
                days[day, default: [:]].merge(values(shape).filter { _ in random.chance(50) }) { $1 }
                sent[day] = days[day]
            }
            said[connection] = days
        default:
            for day in 0..<20 { sent[day] = days[day] ?? values(shape) }
            let start = random.int(36...340)
            for day in start..<(start + 20) { sent[day] = values(shape) }
        }
        let body = body(connection, sent, age: age)
        lastBodies[connection] = body
        return make(connection, shape, body)
    }

    /// More origins than are kept, on one source, in the live lane only.
    private mutating func abuse() -> Post {
        let shape = Self.shapes[0]
        let connection = Connection(user: Self.abuser, source: shape.source, origin: "o\(random.int(0...40))")
        let sent = [0: values(shape), 1: values(shape)]
        return make(connection, shape, body(connection, sent, age: 0))
    }

    private func make(_ connection: Connection, _ shape: Shape, _ body: String) -> Post {
        Post(user: users[connection.user], isConnector: shape.isCloud, body: body)
    }

    mutating func values(_ shape: Shape) -> [String: Int] {
        var values: [String: Int] = [:]
        for metric in shape.metrics where random.chance(85) {
            let value = random.chance(6) ? 0 : random.int(metric.range)
            values[metric.name] = metric.isWhole ? value / 10 * 10 : value
        }
        return values
    }

    private mutating func body(_ connection: Connection, _ days: [Int: [String: Int]], age: Int) -> String {
        let now = Date()
        var items: [String] = []
        for (day, values) in days.sorted(by: { $0.key < $1.key }) {
            let date = ModelDecoder.text(ofDay: Int(now.timeIntervalSince1970 / 86_400) - day)
            var members = [#""date":"\#(date)""#]
            for (name, tenths) in values.sorted(by: { $0.key < $1.key }) {
                let text = tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
                members.append(#""\#(name)":\#(random.chance(2) ? "null" : text)"#)
            }
            items.append("{\(members.joined(separator: ","))}")
        }
        var head = [#""source":"\#(connection.source)""#]
        if !connection.origin.isEmpty { head.append(#""origin":"\#(connection.origin)""#) }
        if random.chance(90) {
            let observed = Int64((now.timeIntervalSince1970 - Double(age)) * 1_000_000)
            head.append(#""observed_at":"\#(Self.text(of: observed))""#)
        }
        head.append(#""time_zone":"\#(Self.zones[connection.user % Self.zones.count])""#)
        if random.chance(25) { head.append(#""zeros":"observed""#) }
        return "{\(head.joined(separator: ",")),\"days\":[\(items.joined(separator: ","))]}"
    }

    // MARK: Records written straight to the log

    /// Deletions, disconnects, pins, device tokens, odd records, and now and then one of them again.
    mutating func record() -> Direct {
        if !direct.isEmpty, random.chance(10) { return random.pick(direct) }
        // Few enough that no partition's brake finds them too many.
        let record = random.chance(14) ? odd() : random.chance(40) ? device() : change()
        if record.oddity != .oversize { direct.append(record) }
        return record
    }

    private mutating func odd() -> Direct {
        if oddities.isEmpty { oddities = kinds.shuffled(using: &random) }
        guard let kind = oddities.popLast() else { return change() }
        var record = odd(kind)
        record.oddity = kind
        return record
    }

    private mutating func change() -> Direct {
        let user = random.int(1...(users.count - 1))
        let source = random.pick(["apple_health", "health_connect", "garmin", "oura", "manual"])
        let value: String
        // A deletion reaches a minute ahead: only one from before leaves something standing.
        var age = random.int(0...3600)
        switch random.int(1...100) {
        // Most users are left alone, so that there is something to compare.
        case ...15 where user % 4 == 3:
            age = random.int(61...3600)
            value = #"{"kind":"delete"}"#
        case ...40:
            age = random.int(61...3600)
            value = #"{"kind":"disconnect","source":"\#(source)","data":\#(user % 4 == 2 && random.chance(40))}"#
        default:
            let metric = random.pick(["steps", "active_energy_kcal", "sleep_minutes", "resting_heart_rate_bpm"])
            let pinned = random.chance(25) ? "null" : #""\#(source)""#
            value = #"{"kind":"preference","metric":"\#(metric)","source":\#(pinned)}"#
        }
        return direct(.accounts, users[user], "account/1", value, age: age)
    }

    /// Few tokens for many users, so that they move.
    private mutating func device() -> Direct {
        let number = random.int(0...11)
        let user = random.pick(users)
        let age = random.int(0...3600)
        guard random.chance(70) else {
            return direct(.devices, hash(number), "device/1", #"{"kind":"withdraw","user":"\#(user)"}"#, age: age)
        }
        let zone = number % 3 == 0 ? "" : #","time_zone":"\#(random.pick(Self.zones))""#
        let value =
            #"{"kind":"register","user":"\#(user)","token":"token \#(number)","platform":"ios","#
            + #""environment":"sandbox","app_id":"app","app_version":"\#(random.int(1...9))","os_version":"1"\#(zone)}"#
        return direct(.devices, hash(number), "device/1", value, age: age)
    }

    func hash(_ token: Int) -> String { group + String(format: "%060x", token) }

    mutating func direct(
        _ lane: Direct.Lane,
        _ key: String,
        _ schema: String,
        _ value: String,
        age: Int = 0,
        leavingOut: String? = nil
    ) -> Direct {
        let received = Int64((Date().timeIntervalSince1970 - Double(age)) * 1_000_000)
        let (high, low) = (random.next(), random.next())
        let hex = String(format: "%016llx%016llx", high & ~0xf000 | 0x7000, low >> 2 | 1 << 63)
        let cuts = [0, 8, 12, 16, 20, 32]
        let digits = Array(hex)
        let event = (0..<5).map { String(digits[cuts[$0]..<cuts[$0 + 1]]) }.joined(separator: "-")
        let headers = [("schema", schema), ("event-id", event), ("received-at", Self.text(of: received))]
        return Direct(
            lane: lane,
            key: Array(key.utf8),
            value: Array(value.utf8),
            headers: headers.filter { $0.0 != leavingOut }.map { (name: $0.0, value: Array($0.1.utf8)) }
        )
    }

    static func text(ofTenths tenths: Int) -> String {
        tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }

    /// RFC 3339 with six digits.
    private static func text(of microseconds: Int64) -> String {
        let seconds = microseconds / 1_000_000
        let (day, second) = (Int(seconds / 86_400), Int(seconds % 86_400))
        return ModelDecoder.text(ofDay: day)
            + String(
                format: "T%02d:%02d:%02d.%06dZ",
                second / 3600,
                second / 60 % 60,
                second % 60,
                Int(microseconds % 1_000_000)
            )
    }
}
