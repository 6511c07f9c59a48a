import Domain
import ServiceRuntime
public import WakeRules

/// Phones and wake workers in virtual time: the decisions and the rows are the real ones, the database is an array and
/// the push server a coin. Nothing sleeps.
public struct WakeSimulation {
    public struct Settings: Sendable {
        public var phones: Int
        public var days: Int
        public var seed: UInt64
        public var workers = 3
        public var policy: WakePolicy
        /// Of a thousand rounds of claims, how many end with the worker killed before, while or after it sends.
        public var killsPerThousand: UInt64 = 20
        /// A mistake that the workers make, for a test of the second model.
        public var mistake: Mistake?

        public init(phones: Int, days: Int = 14, seed: UInt64 = 1, policy: WakePolicy) {
            self.phones = phones
            self.days = days
            self.seed = seed
            self.policy = policy
        }
    }

    /// What the second model finds wrong, and what happened.
    public struct Report: Sendable {
        public var wakes = 0
        public var accepted = 0
        public var unknown = 0
        public var notSpent = 0
        public var answered = 0
        public var kills = 0
        public var settled = 0
        public var lateEnds = 0
        public var looks = 0
        /// Looks for which device tokens had to be read.
        public var tokensRead = 0
        /// Of the clock, as workers saw them.
        public var jumps = 0
        public var tokensLost = 0
        /// At the end, for want of a token.
        public var parked = 0
        public var mostInADay = 0
        /// The longest that somebody who was due had to wait, beside the schedule and outages of ours; seconds.
        public var longestWait = 0
        /// By the name of the rule that does not hold.
        public var faults: [String: Int] = [:]
        public var wakesByHabit: [Int] = Habit.allCases.map { _ in 0 }

        /// In a few lines.
        public var summary: String {
            let habits = Habit.allCases.map { "\($0) \(wakesByHabit[$0.rawValue])" }.joined(separator: ", ")
            let broken = faults.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: "; ")
            return """
                  wakes \(wakes): accepted \(accepted), unknown \(unknown); answered \(answered); not spent \(notSpent)
                  by habit: \(habits)
                  tokens lost \(tokensLost), parked \(parked), kills \(kills), settled \(settled), late ends \(lateEnds)
                  looks \(looks), with tokens read \(tokensRead)
                  clock jumps seen \(jumps)
                  most in a day \(mostInADay), longest wait beside the schedule and outages \(longestWait) s
                  broken rules: \(broken.isEmpty ? "none" : broken)
                """
        }

        mutating func fault(_ rule: String) { faults[rule, default: 0] += 1 }
    }

    static let second: Int64 = 1_000_000
    static let minute: Int64 = 60 * second
    static let hour: Int64 = 3_600 * second
    static let day: Int64 = 24 * hour
    static let leaseSeconds = 60
    static let scanSeconds: Int64 = 20

    let settings: Settings
    /// Midnight.
    let start: Int64 = 1_780_012_800 * second
    var random: SplitMix64
    var phones: [Phone] = []
    var events = Events()
    var index = DueIndex()
    var report = Report()
    /// What was applied, by phone, for the second model.
    var applied: [[(receivedAt: Int64, appliedAt: Int64)]] = []
    /// A worker that was killed is back then.
    var downUntil: [Int64]
    var watches: [ClockWatch]
    /// As the database holds it.
    var clockJump: ClockJump?

    public init(_ settings: Settings) {
        self.settings = settings
        random = SplitMix64(seed: settings.seed)
        downUntil = Array(repeating: 0, count: settings.workers)
        watches = Array(repeating: ClockWatch(), count: settings.workers)
    }

    var end: Int64 { start + Int64(settings.days) * Self.day }

    /// The workers that apply three of four partitions are down: what is accepted waits. The sixth day, for five hours.
    var lag: Range<Int64> { start + 5 * Self.day + 9 * Self.hour..<start + 5 * Self.day + 14 * Self.hour }
    func lags(_ phone: Phone, _ time: Int64) -> Bool { phone.bucket % 4 != 3 && lag.contains(time) }
    /// The door refuses everybody. The ninth day, for an hour.
    var shut: Range<Int64> { start + 8 * Self.day + 12 * Self.hour..<start + 8 * Self.day + 13 * Self.hour }
    /// All wake workers are down. The eleventh day, for three hours.
    var outage: Range<Int64> { start + 10 * Self.day + 2 * Self.hour..<start + 10 * Self.day + 5 * Self.hour }

    public mutating func run() -> Report {
        for number in 0..<settings.phones { addPhone(number) }
        for worker in 0..<settings.workers {
            events.plan(.scan(worker: worker), at: start + Int64(worker) * 7 * Self.second)
        }
        while let (time, kind) = events.next(), time < end {
            switch kind {
            case .push(let phone):
                push(phone, time)
                plan(phone, time)
            case .answer(let phone): push(phone, time)
            case .apply(let phone, let receivedAt): apply(phone, receivedAt, time)
            case .scan(let worker): scan(worker, time)
            case .conclude(let phone, let claim, let wakeAt, let outcome):
                conclude(phone, claim, wakeAt, outcome, at: time)
            case .register(let phone): register(phone, time)
            }
        }
        check()
        return report
    }

    private mutating func addPhone(_ number: Int) {
        let user = UserID(high: random.next() & ~0xf000 | 0x4000, low: random.next() | 1 << 63)
        var place = number % 100
        var habit = Habit.answers
        for candidate in Habit.allCases {
            if place < candidate.share {
                habit = candidate
                break
            }
            place -= candidate.share
        }
        let begin = start + Int64.random(in: 0..<Self.day, using: &random)
        var phone = Phone(user: user, bucket: Int(random.next() % 4096), habit: habit, registeredAt: begin)
        if habit == .tokenDies || habit == .twoDevices {
            phone.diesAt = begin + Int64.random(in: 2 * Self.day..<6 * Self.day, using: &random)
        }
        phones.append(phone)
        applied.append([])
        events.plan(.register(phone: number), at: begin)
        if habit != .cloudOnly { events.plan(.push(phone: number), at: begin) }
    }

    // MARK: Phones

    /// The phone posts: because it was woken, or because somebody has opened the app.
    private mutating func push(_ number: Int, _ time: Int64) {
        guard !shut.contains(time) else { return }
        let delay = Int64.random(in: 0..<60 * Self.second, using: &random)
        let appliedAt = lags(phones[number], time) ? lag.upperBound + delay : time + 50_000
        events.plan(.apply(phone: number, receivedAt: time), at: appliedAt)
    }

    /// When somebody opens the app again.
    private mutating func plan(_ number: Int, _ time: Int64) {
        let pause: Range<Int64> =
            switch phones[number].habit {
            case .forceQuit, .atNight: 2 * Self.day..<5 * Self.day
            default: 12 * Self.hour..<72 * Self.hour
            }
        events.plan(.push(phone: number), at: time + Int64.random(in: pause, using: &random))
    }

    /// As the aggregator does it: under the account's lock, the connection, the answer and the schedule together.
    private mutating func apply(_ number: Int, _ receivedAt: Int64, _ now: Int64) {
        applied[number].append((receivedAt, now))
        let isFirst = phones[number].lastPushAt == nil
        phones[number].lastPushAt = max(phones[number].lastPushAt ?? 0, receivedAt)
        if isFirst {
            bringForward(number, WakeRule.due(afterPush: Instant(microseconds: receivedAt)).microseconds)
        }
        // Two clocks: the wake was timed by the other one.
        let answered = WakeRule.answers(before: Instant(microseconds: receivedAt)).microseconds
        guard phones[number].openWakeAt != 0, answered > phones[number].openWakeAt else { return }
        var struck = 0
        var open: Int64 = 0
        for place in phones[number].sends.indices {
            let send = phones[number].sends[place]
            guard send.answeredAt == 0, send.outcome != .notSpent else { continue }
            if clock(send.wakeAt) < answered {
                phones[number].sends[place].answeredAt = receivedAt
                report.answered += 1
            } else {
                if send.outcome == .accepted { struck += 1 }
                if open == 0 { open = clock(send.wakeAt) }
            }
        }
        phones[number].openWakeAt = open
        guard var schedule = phones[number].schedule else { return }
        if settings.mistake == .doesNotHeal { return }
        schedule.heal(pushedAt: receivedAt, struckSince: struck)
        write(number, schedule)
    }

    private mutating func register(_ number: Int, _ time: Int64) {
        phones[number].registeredAt = time
        phones[number].isDeactivated = false
        if let gap = phones[number].withoutToken { phones[number].withoutToken = gap.lowerBound..<time }
        if settings.mistake == .doesNotBringForward { return }
        if phones[number].lastPushAt != nil { bringForward(number, time) }
    }

    private mutating func bringForward(_ number: Int, _ dueAt: Int64) {
        var schedule = phones[number].schedule ?? WakeSchedule(dueAt: dueAt)
        schedule.dueAt = min(schedule.dueAt, dueAt)
        write(number, schedule)
    }

    mutating func write(_ number: Int, _ schedule: WakeSchedule) {
        if phones[number].schedule?.dueAt != schedule.dueAt { index.add(number, schedule.dueAt) }
        phones[number].schedule = schedule
    }

    /// What becomes of a push that the server took.
    func willAnswer(_ number: Int, _ time: Int64, _ random: inout SplitMix64) -> Bool {
        switch phones[number].habit {
        case .answers, .tokenDies: true
        case .forceQuit, .cloudOnly: false
        case .atNight: ((time - start) % Self.day) / Self.hour >= 22 || ((time - start) % Self.day) / Self.hour < 6
        case .twoDevices:
            phones[number].diesAt <= time || phones[number].isDeactivated
                ? random.next() % 2 != 0 : random.next() % 4 != 0
        }
    }
}
