import Domain
import ServiceRuntime
import WakeRules

/// How a phone lives with wakes.
public enum Habit: Int, CaseIterable, Sendable {
    /// Every wake that arrives is answered within minutes.
    case answers
    /// Swiped away: no wake reaches the app; its owner opens it every few days.
    case forceQuit
    /// Only wakes between 22:00 and 06:00 UTC are answered.
    case atNight
    /// Answers, until its token dies; a new one is registered some days later.
    case tokenDies
    /// Two phones, each of which answers half of the wakes, until the token of one of them dies.
    case twoDevices
    /// A cloud source alone, which delivers every hour: nothing on the device is connected.
    case cloudOnly

    /// Of a hundred phones.
    var share: Int {
        switch self {
        case .answers: 30
        case .forceQuit: 20
        case .atNight: 20
        case .tokenDies: 10
        case .twoDevices: 10
        case .cloudOnly: 10
        }
    }
}

/// A user with their phones: what the pipeline knows of them, and how they behave.
struct Phone {
    let user: UserID
    let bucket: Int
    let habit: Habit
    /// Applied pushes of on-device sources; nil before the first.
    var lastPushAt: Int64?
    var schedule: WakeSchedule?
    /// The oldest wake that no push has answered; 0 for none.
    var openWakeAt: Int64 = 0
    /// When the only or the first token was registered, and when it died.
    var registeredAt: Int64
    var diesAt: Int64 = .max
    /// A dead token that was found out. Of two phones it is the second one's, and the user has the other one still.
    var isDeactivated = false
    let firstRegisteredAt: Int64
    /// From the answer that called the only token dead until there was another one.
    var withoutToken: Range<Int64>?
    /// Wakes by their claim, for the record.
    var sends: [Send] = []

    struct Send {
        /// By the right time; rows have the database's.
        let wakeAt: Int64
        /// When the worker was told of its end; 0 where it never was.
        var endedAt: Int64 = 0
        var outcome: Outcome?
        var answeredAt: Int64 = 0
    }

    enum Outcome: Sendable {
        case accepted, unknown, notSpent
    }

    init(user: UserID, bucket: Int, habit: Habit, registeredAt: Int64) {
        self.user = user
        self.bucket = bucket
        self.habit = habit
        self.registeredAt = registeredAt
        firstRegisteredAt = registeredAt
    }

    /// Of two phones one stays.
    var hasLastToken: Bool { habit != .twoDevices || isDeactivated }

    func tokens() -> [WakeToken] {
        let first = token(0)
        if habit == .twoDevices { return isDeactivated ? [first] : [first, token(1)] }
        return isDeactivated ? [] : [first]
    }

    func token(_ number: UInt8) -> WakeToken {
        WakeToken(
            user: user,
            hash: DeviceTokenHash(InlineArray(repeating: number)),
            registration: DeviceRegistration(token: "", platform: .ios),
            registered: Version(
                observedAt: nil,
                receivedAt: Instant(microseconds: registeredAt),
                event: EventID(high: 0, low: 0)
            )
        )
    }

    /// Without device tokens.
    func facts(_ schedule: WakeSchedule) -> WakeFacts {
        let connections = lastPushAt.map {
            [WakeFacts.Connection(source: .appleHealth, lastPushAt: Instant(microseconds: $0), disconnectedAt: nil)]
        }
        return WakeFacts(
            user: user,
            bucket: bucket,
            connections: connections ?? [],
            tokens: [],
            schedule: schedule
        )
    }
}

/// What happens, in the order of time; of the same moment in the order in which it was planned.
struct Events {
    enum Kind {
        /// Somebody opens the app.
        case push(phone: Int)
        /// The phone answers a wake.
        case answer(phone: Int)
        /// A push that was accepted is applied; planned later while the workers are down.
        case apply(phone: Int, receivedAt: Int64)
        case scan(worker: Int)
        /// The end of a claim reaches the worker that sent it.
        case conclude(phone: Int, claim: Int64, wakeAt: Int64, Phone.Outcome)
        /// The phone's token is replaced.
        case register(phone: Int)
    }

    private struct Entry {
        let time: Int64
        let order: Int
        let kind: Kind

        func isBefore(_ other: Entry) -> Bool { time == other.time ? order < other.order : time < other.time }
    }

    private var heap: [Entry] = []
    private var order = 0

    mutating func plan(_ kind: Kind, at time: Int64) {
        heap.append(Entry(time: time, order: order, kind: kind))
        order += 1
        var child = heap.count - 1
        while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func next() -> (time: Int64, kind: Kind)? {
        guard let first = heap.first, let last = heap.popLast() else { return nil }
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var least = parent
                for child in [2 * parent + 1, 2 * parent + 2]
                where child < heap.count && heap[child].isBefore(heap[least]) {
                    least = child
                }
                if least == parent { break }
                heap.swapAt(parent, least)
                parent = least
            }
        }
        return (first.time, first.kind)
    }
}

/// The schedule's index: who is due first. An entry counts only while it is what the row says.
struct DueIndex {
    private var heap: [(dueAt: Int64, phone: Int)] = []

    mutating func add(_ phone: Int, _ dueAt: Int64) {
        guard dueAt != WakeSchedule.never else { return }
        heap.append((dueAt, phone))
        var child = heap.count - 1
        while child > 0, heap[child].dueAt < heap[(child - 1) / 2].dueAt {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    var first: (dueAt: Int64, phone: Int)? { heap.first }

    mutating func removeFirst() {
        guard let last = heap.popLast(), !heap.isEmpty else { return }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].dueAt < heap[least].dueAt {
                least = child
            }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
