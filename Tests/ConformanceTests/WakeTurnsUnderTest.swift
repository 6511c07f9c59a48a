import Domain
import Observability
import Postgres
import Push
import ServiceRuntime
import Storage
import Synchronization
import WakeRules

@testable import WakeWorker

/// Clocks that move when they are told to. What servers and their clients wait for is the machine's own time.
final class VirtualTime: TimeSource {
    private let held: Mutex<(wall: Int64, boot: Int64)>

    init(_ start: Instant) {
        held = Mutex((start.microseconds, 1_000_000_000))
    }

    func wallMicroseconds() -> Int64 { held.withLock { $0.wall } }
    func bootNanoseconds() -> Int64 { held.withLock { $0.boot } }
    func monotonicNanoseconds() -> Int64 { SystemTime().monotonicNanoseconds() }

    var now: Instant { Instant(microseconds: wallMicroseconds()) }

    /// Time passes.
    func pass(_ seconds: Int) {
        held.withLock {
            $0.wall += Int64(seconds) * 1_000_000
            $0.boot += Int64(seconds) * 1_000_000_000
        }
    }

    /// The clock is put forward, or back.
    func jump(_ seconds: Int) { held.withLock { $0.wall += Int64(seconds) * 1_000_000 } }
}

private struct NoSink: LogSink {
    func write(_ line: [UInt8]) {}
}

/// Takes every push and says that it was accepted.
final class AcceptingSender: PushSending {
    private let delegate: any PushSenderDelegate
    private let taken = Mutex<[PushRequest]>([])

    init(_ delegate: any PushSenderDelegate) {
        self.delegate = delegate
    }

    var requests: [PushRequest] { taken.withLock { $0 } }
    var underWay: Int { 0 }
    var stops: [PushAlarm] { [] }

    func send(_ request: PushRequest) -> Bool {
        taken.withLock { $0.append(request) }
        delegate.ended(request, delegate.mayStillSend(request) ? .accepted : .notSent(.leaseEnded))
        return true
    }

    func resume() {}
}

/// A database whose clock and whose workers' clocks are one that the test moves.
final class WakeTurnsUnderTest {
    /// One worker's parts.
    struct Worker {
        let work: WakeWork
        let dispatcher: WakeDispatcher
        let registry: MetricsRegistry

        /// A metric's value, all labels that begin so together.
        func metric(_ name: String) -> Double {
            let text = String(decoding: registry.renderPrometheusText(), as: UTF8.self)
            return text.split(separator: "\n").filter { $0.hasPrefix(name) }.reduce(0) { sum, line in
                sum + (line.split(separator: " ").last.flatMap { Double($0) } ?? 0)
            }
        }
    }

    let database: WakesUnderTest
    let time: VirtualTime

    init(partitions: Int = 4) throws {
        database = try WakesUnderTest(partitions: partitions)
        time = VirtualTime(WakesUnderTest.start)
        // Found before the server's own, in sessions that begin from here on.
        try database.connection.simpleQuery(
            """
            CREATE TABLE test_clock (at timestamptz NOT NULL);
            INSERT INTO test_clock VALUES (now());
            CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
                AS 'SELECT at FROM public.test_clock';
            DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
            END $$
            """
        )
        try sync()
    }

    /// The database's clock as the machine's, and everything applied, by the right time.
    func sync(lag seconds: Int = 0) throws {
        try database.connection.simpleQuery(
            "UPDATE test_clock SET at = to_timestamp(\(time.wallMicroseconds()) / 1000000.0)"
        )
        try database.setApplied(time.now.advanced(bySeconds: -seconds))
    }

    /// Time passes, and the workers of days keep up.
    func pass(_ seconds: Int) throws {
        time.pass(seconds)
        try sync()
    }

    func worker(
        batch: Int = 100,
        sender makeSender: (WakeDispatcher) throws -> any PushSending
    ) throws -> Worker {
        let registry = MetricsRegistry()
        let metrics = WakeMetrics(registry)
        let dispatcher = WakeDispatcher(time: time, metrics: metrics)
        let store = try database.store()
        let work = WakeWork(
            settings: .init(
                policy: WakePolicy(schedule: SendSchedule(.continuous)),
                worker: UUID128(high: UInt64.random(in: 0...UInt64.max), low: 0),
                batch: batch,
                ratePerSecond: 0,
                leaseSeconds: 90,
                logSeconds: 30 * 86_400
            ),
            store: store,
            deactivate: { try store.deactivate($0) },
            dispatcher: dispatcher,
            sender: try makeSender(dispatcher),
            metrics: metrics,
            log: Log(service: "wake test", sink: NoSink()),
            time: time
        )
        return Worker(work: work, dispatcher: dispatcher, registry: registry)
    }

    /// Every row as text, with the transaction that wrote it.
    func rows(_ table: String) throws -> [String] {
        let rows = try database.connection.executeUnprepared(
            "SELECT xmin::text || ' ' || held::text FROM \(table) AS held ORDER BY held::text"
        )
        return try (0..<rows.rowCount).map { try rows.text($0, 0) }
    }
}
