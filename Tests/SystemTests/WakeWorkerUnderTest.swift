import Domain
import Foundation
import Glibc
import MessageContract
import Postgres
import PushStandIn
import Storage
import TestSupport

/// A database with users, a stand-in for Apple, and built wake workers.
final class WakeWorkerUnderTest {
    let databaseURL: String
    let connection: PostgresConnection
    let standIn: PushStandIn
    let reports: WakeReports
    let folder: String

    static let app = "com.example"
    private static let partitions = 4
    private static let key = DevelopmentKeys.p256() ?? []

    /// With a database of its own, whose positions are set by hand, or behind a pipeline that runs.
    init(_ script: StandInScript = StandInScript(), databaseURL: String? = nil) throws {
        self.databaseURL = try databaseURL ?? PrivatePostgres.freshDatabase()
        connection = try PostgresConnection(url: self.databaseURL, applicationName: "system test")
        try Migrator(connection).migrate(today: Self.now.day(secondsFromUTC: 0))
        try WakeMonths(connection).ensureAhead(of: Self.now.day(secondsFromUTC: 0))
        reports = WakeReports(connection)
        folder = NSTemporaryDirectory() + "daybook-wakes-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(Self.key).write(to: URL(fileURLWithPath: folder + "/key.p8"))
        standIn = try PushStandIn(folder: folder, script: script)
        if databaseURL == nil { try catchUp() }
    }

    deinit {
        standIn.stop()
        try? FileManager.default.removeItem(atPath: folder)
    }

    static var now: Instant { .present }

    static func hoursAgo(_ hours: Double) -> Instant { now.advanced(bySeconds: -Int(hours * 3600)) }

    /// As if the workers had applied everything up to then.
    func catchUp(to time: Instant = WakeWorkerUnderTest.now) throws {
        try WakeUsers.setApplied(
            time,
            topic: Topic.daysLive.name(prefix: ""),
            partitions: Self.partitions,
            on: connection
        )
    }

    /// Users who have been silent for so long.
    func addStale(_ numbers: Range<Int>, hours: Double = 30) throws {
        try WakeUsers.add(
            numbers,
            pushedAt: Self.hoursAgo(hours),
            dueAt: Self.hoursAgo(hours - 4),
            to: connection
        )
    }

    /// Workers connect as a member of their own role would: with no more rights than it has.
    private var workerURL: String {
        databaseURL + (databaseURL.contains("?") ? "&" : "?") + "options=-c%20role%3Ddaybook_wake"
    }

    func environment(port: UInt16? = nil) -> [String: String] {
        [
            "DAYBOOK_DATABASE_URL": workerURL,
            "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_WAKE_SCHEDULE": "continuous",
            "DAYBOOK_WAKE_SCAN_INTERVAL_MS": "50",
            "DAYBOOK_WAKE_RATE": "0",
            "DAYBOOK_APNS_KEY_FILE": folder + "/key.p8",
            "DAYBOOK_APNS_KEY_ID": "KEY1234567",
            "DAYBOOK_APNS_TEAM_ID": "TEAM123456",
            "DAYBOOK_APNS_TOPIC": Self.app,
            "DAYBOOK_APNS_HOST": "localhost:\(port ?? standIn.port)",
            "DAYBOOK_APNS_SANDBOX_HOST": "localhost:\(port ?? standIn.port)",
            "DAYBOOK_PUSH_CA_FILE": standIn.authorityFile,
        ]
    }

    /// Starts a worker; with a port, it takes another server there for Apple's.
    func start(port: UInt16? = nil, _ more: [String: String] = [:]) throws -> ServiceProcess {
        try ServiceProcess("wake-worker", environment: environment(port: port).merging(more) { $1 })
    }

    /// Runs the operator's program to its end.
    func daybook(_ arguments: String...) throws -> (status: Int32, output: String) { try daybook(arguments) }

    /// The same, in a session of that role.
    func daybook(_ arguments: [String], role: String? = nil) throws -> (status: Int32, output: String) {
        let options = role.map { (databaseURL.contains("?") ? "&" : "?") + "options=-c%20role%3D\($0)" } ?? ""
        let environment = ["DAYBOOK_DATABASE_URL": databaseURL + options, "DAYBOOK_WAKE_SCHEDULE": "continuous"]
        let more = ["DAYBOOK_STATE": "/nonexistent/daybook"]
        let program = try ServiceProcess("daybook", arguments, environment: environment.merging(more) { $1 })
        return (try program.waitForExit(seconds: 60), program.output)
    }

    // MARK: Looking

    func count(_ sql: String) throws -> Int {
        Int(try connection.executeUnprepared("SELECT count(*) FROM \(sql)").int8(0, 0))
    }

    /// Every row as text, with the transaction that wrote it.
    func rows(_ table: String) throws -> [String] {
        let rows = try connection.executeUnprepared(
            "SELECT xmin::text || ' ' || held::text FROM \(table) AS held ORDER BY held::text"
        )
        return try (0..<rows.rowCount).map { try rows.text($0, 0) }
    }

    /// As if so much time had passed for the schedule and for phones.
    func pass(minutes: Int) throws {
        let time = Int64(minutes) * 60_000_000
        try connection.simpleQuery(
            """
            UPDATE wake_schedule SET due_at = due_at - \(time), last_wake_at = greatest(0, last_wake_at - \(time)),
                previous_wake_at = greatest(0, previous_wake_at - \(time)), struck_at = greatest(0, struck_at - \(time));
            UPDATE connections SET last_push_at = last_push_at - \(time)
            """
        )
    }

    func wakes(_ number: Int) throws -> [WakeReports.Wake] {
        try reports.wakes(of: WakeUsers.user(number), limit: 10)
    }

    /// Waits until so many wakes have ended.
    func waitForEnds(_ count: Int, seconds: Int = 60, of worker: ServiceProcess? = nil) throws {
        do {
            try Eventually.holds("\(count) wakes have ended", seconds: seconds) {
                try self.count("push_sends WHERE outcome IS NOT NULL") >= count
            }
        } catch {
            let outcomes = try connection.executeUnprepared(
                "SELECT coalesce(outcome, 'open') || ' ' || count(*) FROM push_sends GROUP BY outcome"
            )
            let found = try (0..<outcomes.rowCount).map { try outcomes.text($0, 0) }
            throw Eventually.TimedOut(what: "\(error); \(found)\n\(worker?.output.suffix(3000) ?? "")")
        }
    }

    func schedule(_ number: Int) throws -> (dueAt: Int64, lastWakeAt: Int64, unanswered: Int, claim: Int64) {
        let result = try connection.executeUnprepared(
            "SELECT due_at, last_wake_at, unanswered::int4, claim FROM wake_schedule WHERE user_id = '\(WakeUsers.user(number))'"
        )
        return (try result.int8(0, 0), try result.int8(0, 1), Int(try result.int4(0, 2)), try result.int8(0, 3))
    }
}
