import Domain
import Foundation
import Glibc
import Synchronization
import TestSupport

/// A thread that publishes days of some users, many of them late, never more ahead than it is allowed to be.
final class DaysLoad: Sendable {
    static let users = (0..<50).map { UserID(high: 2, low: UInt64($0)) }

    private let bootstrapServers: String
    private let most: Int
    private let allowed = Atomic<Int>(0)
    private let count = Atomic<Int>(0)
    private let isEnding = Atomic<Bool>(false)
    private let group = DispatchGroup()
    private let error = Mutex<String?>(nil)

    /// How many records are acknowledged.
    var published: Int { count.load(ordering: .acquiring) }
    var failure: String? { error.withLock { $0 } }

    /// - Parameters:
    ///   - pipeline: whose live topic it writes to.
    ///   - most: how many records at most: the development broker keeps 5 MiB of a partition.
    init(_ pipeline: PipelineUnderTest, most: Int) {
        bootstrapServers = pipeline.kafka.bootstrapServers
        self.most = most
        group.enter()
        Thread.detachNewThread { [self] in
            do { try run() } catch { self.error.withLock { $0 = "\(error)" } }
            group.leave()
        }
    }

    func allow(_ records: Int) {
        allowed.store(min(records, most), ordering: .releasing)
    }

    /// Once everything that was begun is acknowledged.
    func end() {
        isEnding.store(true, ordering: .releasing)
        group.wait()
    }

    private func run() throws {
        let publisher = try RecordPublisher(bootstrapServers: bootstrapServers)
        var generator = SystemRandomNumberGenerator()
        let sources: [Source] = [.appleHealth, .healthConnect, .garmin, .manual]
        while !isEnding.load(ordering: .acquiring) {
            guard published < allowed.load(ordering: .acquiring) else {
                poll(nil, 0, 2)
                continue
            }
            for _ in 0..<10 {
                let days = (0..<10).map { offset -> (CalendarDay, MetricValues) in
                    let steps = Int32.random(in: 0...2000, using: &generator) * 10
                    return (PipelineUnderTest.today.advanced(by: -offset), [.steps: steps, .activeEnergy: steps / 3])
                }
                let now = PipelineUnderTest.now
                try publisher.publish(
                    Self.users[Int.random(in: 0..<50, using: &generator)],
                    sources[Int.random(in: 0..<4, using: &generator)],
                    receivedAt: now,
                    observedAt: now.advanced(bySeconds: -Int.random(in: 0...100, using: &generator) * 60),
                    localDate: PipelineUnderTest.today,
                    days
                )
            }
            try publisher.flush()
            count.add(10, ordering: .releasing)
        }
    }
}
