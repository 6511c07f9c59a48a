import Synchronization

/// Where nothing is sent, and why. Any thread.
final class StopBoard: Sendable {
    private struct Place: Hashable {
        let lane: PushLane
        let topic: String?
    }

    private let stops = Mutex<[Place: PushAlarm]>([:])
    /// Moves with each change, so that lanes see at a glance whether there is news.
    private let changes = Atomic<Int>(0)
    private let resumptions = Atomic<Int>(0)

    var generation: Int { changes.load(ordering: .acquiring) }

    /// How often all was resumed.
    var resumed: Int { resumptions.load(ordering: .acquiring) }

    /// False if that place is stopped already.
    func add(_ alarm: PushAlarm) -> Bool {
        let isNew = stops.withLock { $0.updateValue(alarm, forKey: Place(lane: alarm.lane, topic: alarm.topic)) == nil }
        changes.add(1, ordering: .acquiringAndReleasing)
        return isNew
    }

    var all: [PushAlarm] {
        stops.withLock { Array($0.values) }.sorted {
            ($0.lane.rawValue, $0.topic ?? "") < ($1.lane.rawValue, $1.topic ?? "")
        }
    }

    /// Those of one lane, by topic; the empty topic is all of it.
    func of(_ lane: PushLane) -> [String: PushAlarm.Code] {
        stops.withLock { stops in
            var codes: [String: PushAlarm.Code] = [:]
            for (place, alarm) in stops where place.lane == lane { codes[place.topic ?? ""] = alarm.code }
            return codes
        }
    }

    func clear() {
        stops.withLock { $0.removeAll() }
        resumptions.add(1, ordering: .acquiringAndReleasing)
        changes.add(1, ordering: .acquiringAndReleasing)
    }
}
