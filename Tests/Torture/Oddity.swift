import Foundation

/// Records that no ingest would write. All but one kind are poison: each has to become a dead letter, and nothing else.
enum Oddity: String, CaseIterable, Sendable {
    case notJSON, noObject, unknownSchema
    case noSchema, noEventID, noReceivedAt, emptyValue
    case wrongKey, unknownSource, outOfRange, fraction
    case tooManyDays, oversize, oversizeChange
    case unknownChange, unknownMetric
    case wrongHash, bareDevice
    /// It says that it was received a day from now.
    case wrongClock
    /// A good record on a partition that is not its key's: it is applied as any other.
    case wrongPartition

    var isPoison: Bool { self != .wrongPartition }

    /// Those that can be made over this Kafka: the mock's append times are not believed, and it keeps little.
    static func all(onRealKafka isReal: Bool) -> [Oddity] {
        allCases.filter { isReal || ($0 != .wrongClock && $0 != .oversize) }
    }
}

extension Generator {
    private static let days =
        #"{"source":"apple_health","local_date":"2026-01-02","days":[{"date":"2026-01-01","steps":1}]}"#

    /// One of this kind, of any user and of any lane that it can come by.
    mutating func odd(_ kind: Oddity) -> Direct {
        let user = random.pick(users)
        let lane: Direct.Lane = random.pick([.live, .live, .live, .history])
        let days = Self.days
        switch kind {
        case .notJSON: return direct(lane, user, "days/1", "}{")
        case .noObject: return direct(lane, user, "days/1", "[1]")
        case .unknownSchema: return direct(lane, user, "days/9", days)
        case .noSchema: return direct(lane, user, "days/1", days, leavingOut: "schema")
        case .noEventID: return direct(lane, user, "days/1", days, leavingOut: "event-id")
        case .noReceivedAt: return direct(lane, user, "days/1", days, leavingOut: "received-at")
        case .emptyValue: return direct(lane, user, "days/1", "")
        case .wrongKey: return direct(lane, "nobody", "days/1", days)
        case .unknownSource: return direct(lane, user, "days/1", days.replacing("apple_health", with: "pear_health"))
        case .outOfRange:
            let value = random.pick(["-1", "100001", "1e300"])
            return direct(lane, user, "days/1", days.replacing("\"steps\":1", with: "\"steps\":\(value)"))
        case .fraction: return direct(lane, user, "days/1", days.replacing("\"steps\":1", with: "\"steps\":0.5"))
        case .tooManyDays:
            let list = (0...400).map { #"{"date":"\#(ModelDecoder.text(ofDay: 20_089 + $0 % 300))"}"# }
            let value = #"{"source":"oura","days":[\#(list.joined(separator: ","))]}"#
            return direct(lane, user, "days/1", value)
        case .oversize:
            return direct(lane, user, "days/1", days + String(repeating: " ", count: 1_850_000))
        case .oversizeChange:
            let padding = String(repeating: " ", count: 20_000)
            return direct(.accounts, user, "account/1", #"{"kind":"delete"\#(padding)}"#, age: 3600)
        case .unknownChange: return direct(.accounts, user, "account/1", #"{"kind":"promote"}"#)
        case .unknownMetric:
            return direct(.accounts, user, "account/1", #"{"kind":"preference","metric":"luck","source":null}"#)
        case .wrongHash: return direct(.devices, user, "device/1", #"{"kind":"withdraw","user":"\#(user)"}"#)
        case .bareDevice: return direct(.devices, hash(0), "device/1", #"{"kind":"register","user":"\#(user)"}"#)
        case .wrongClock: return direct(lane, user, "days/1", days, age: -100_000)
        case .wrongPartition: return elsewhere()
        }
    }

    /// Days of a phone, written to any partition. Not of the one user to whom order matters.
    private mutating func elsewhere() -> Direct {
        let user = users[random.int(1...(users.count - 1))]
        let age = random.int(0...3600)
        let today = Int(Date().timeIntervalSince1970 - Double(age)) / 86_400
        let items = (0..<3).map { day in
            let members = values(Self.shapes[0]).sorted { $0.key < $1.key }.map { name, tenths in
                #","\#(name)":\#(Self.text(ofTenths: tenths))"#
            }
            return #"{"date":"\#(ModelDecoder.text(ofDay: today - day))"\#(members.joined())}"#
        }
        let value =
            #"{"source":"apple_health","local_date":"\#(ModelDecoder.text(ofDay: today))","#
            + #""days":[\#(items.joined(separator: ","))]}"#
        var record = direct(.live, user, "days/1", value, age: age)
        record.partition = Int32(clamping: random.int(0...(partitions - 1)))
        return record
    }
}
