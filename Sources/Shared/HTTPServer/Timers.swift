import Glibc

/// Nanoseconds of the monotonic clock.
func monotonicNow() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
}

/// Names a timer, to cancel it.
public struct HTTPTimerID: Hashable, Sendable {
    let number: UInt64
}

/// A heap of closures by their time. For a few timers; requests have their deadlines in the connections.
struct TimerHeap {
    struct Entry {
        let time: UInt64
        let number: UInt64
        /// Zero: once.
        let interval: UInt64
        let action: () -> Void
    }

    private var heap: [Entry] = []
    private var live: Set<UInt64> = []
    private var last: UInt64 = 0

    var nextTime: UInt64? { heap.first?.time }

    mutating func add(at time: UInt64, interval: UInt64, _ action: @escaping () -> Void) -> HTTPTimerID {
        last += 1
        live.insert(last)
        push(Entry(time: time, number: last, interval: interval, action: action))
        return HTTPTimerID(number: last)
    }

    mutating func cancel(_ timer: HTTPTimerID) {
        live.remove(timer.number)
    }

    /// The next action that is due, already put back if it repeats. Missed repetitions are not made up for.
    mutating func popDue(_ now: UInt64) -> (() -> Void)? {
        while let first = heap.first, first.time <= now {
            pop()
            guard live.contains(first.number) else { continue }
            if first.interval > 0 {
                let next = first.time &+ first.interval
                let time = next > now ? next : now &+ first.interval
                push(Entry(time: time, number: first.number, interval: first.interval, action: first.action))
            } else {
                live.remove(first.number)
            }
            return first.action
        }
        return nil
    }

    private mutating func push(_ entry: Entry) {
        heap.append(entry)
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].time < heap[parent].time else { break }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    private mutating func pop() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
                if heap[child].time < heap[least].time { least = child }
            }
            guard least != parent else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
