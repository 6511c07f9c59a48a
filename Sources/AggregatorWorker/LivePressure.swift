internal import Synchronization

/// How many live lanes of this process have work: while any has, history lanes keep their batches short.
final class LivePressure: Sendable {
    private let busy = Atomic<Int>(0)

    var isOn: Bool { busy.load(ordering: .relaxed) > 0 }

    func begin() { busy.add(1, ordering: .relaxed) }
    func end() { busy.subtract(1, ordering: .relaxed) }
}

/// The size of a history lane's batches while live lanes have work: adapted so that each takes about five
/// milliseconds of the database's time, which is what a live batch may have to wait for it.
struct YieldingLimit: Hashable, Sendable {
    static let target: Int64 = 5_000_000
    private static let smallest = 15

    private let largest: Int
    private(set) var days: Int

    init(largest: Int) {
        self.largest = max(1, largest)
        days = min(100, self.largest)
    }

    mutating func note(days taken: Int, nanoseconds: Int64) {
        if nanoseconds > Self.target {
            days = max(min(Self.smallest, largest), min(days, taken) / 2)
        } else if taken >= days && nanoseconds < Self.target / 2 {
            days = min(largest, days * 2)
        }
    }
}
