internal import Aggregation

/// How much of what waits on a partition goes into the next batch: bounded in records, days and bytes, and cut at
/// the record that trips the brake, so that nothing behind it is sent anywhere.
struct BatchCut: Hashable, Sendable {
    struct Limits: Hashable, Sendable {
        let records: Int
        let days: Int
        let bytes: Int
    }

    /// One waiting record, as far as the cut is concerned.
    struct Item {
        let days: Int
        let bytes: Int
        let isPoison: Bool
        let isCounted: Bool
    }

    private(set) var count = 0
    private(set) var brake: Brake
    private(set) var tripsBrake = false

    /// At least one item is taken, however large it is. Items are asked for one by one, as long as there is room.
    init(_ items: some Sequence<Item>, limits: Limits, brake: Brake) {
        self.brake = brake
        var days = 0
        var bytes = 0
        for item in items {
            let isFull = days + item.days > limits.days || bytes + item.bytes > limits.bytes || count >= limits.records
            if count > 0 && isFull { break }
            count += 1
            days += item.days
            bytes += item.bytes
            guard item.isCounted else { continue }
            if self.brake.count(isDeadLetter: item.isPoison) {
                tripsBrake = true
                break
            }
        }
    }
}
