import DevelopmentStack
import Domain
import Foundation
import Glibc
import MessageContract
import Postgres
import TestSupport

/// Kafka Connect with a JDBC sink, of PEERS_HOME: upserts source rows and does nothing else. One record a day, in the
/// shape that it reads; the same users, days and values as for the others.
final class JDBCSink {
    private let database: BenchmarkDatabase
    private let looking: PostgresConnection
    private let child: ChildProcess
    private let publisher: DayPublisher
    private let people: People
    private let folder = FileManager.default.temporaryDirectory.path + "/daybook-bench-\(getpid())-connect"
    private var log: String { folder + "/log" }

    static func isThere(_ home: String) -> Bool { access(home + "/connect/run", X_OK) == 0 }

    init(_ home: String, _ kafka: AggregatorKafka, _ database: BenchmarkDatabase, _ people: People) throws {
        self.database = database
        self.people = people
        try database.cluster.createDatabase(named: "jdbc")
        looking = try database.look(into: "jdbc")
        try looking.simpleQuery(String(contentsOfFile: home + "/connect/schema.sql", encoding: .utf8))
        publisher = try DayPublisher(kafka, topic: AggregatorKafka.jdbcTopic)
        guard let url = URLComponents(string: try database.cluster.tcpURL(database: "jdbc")), let port = url.port else {
            throw BenchmarkFailure("the database's address can't be read")
        }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var environment = ProcessInfo.processInfo.environment
        environment["PEER_BROKERS"] = kafka.bootstrapServers
        environment["PEER_TOPIC"] = AggregatorKafka.jdbcTopic
        environment["PEER_DATABASE_URL"] = "jdbc:postgresql://127.0.0.1:\(port)/jdbc"
        environment["PEER_DATABASE_USER"] = PostgresCluster.user
        environment["PEER_DATABASE_PASSWORD"] = url.password ?? ""
        child = try ChildProcess.start(
            .init(
                program: home + "/connect/run",
                arguments: ["--dir", folder],
                environment: environment,
                logPath: folder + "/log"
            )
        )
        try Eventually.holds("Connect to serve (see \(log))", seconds: 90) {
            guard self.child.poll() == nil else { throw BenchmarkFailure("Connect ended: see \(self.log)") }
            return self.isInState("RUNNING")
        }
    }

    deinit {
        child.kill()
        if child.poll() != nil { try? FileManager.default.removeItem(atPath: folder) }
    }

    func stop() throws {
        child.terminate()
        try Eventually.holds("Connect ends") { self.child.poll() != nil }
    }

    /// Publishes while the sink stands still, then lets it go and waits for the last record of each partition.
    /// `order`: users and ages of their days, in the order of publishing; the last of each partition must
    ///   be a day that changes.
    func take(_ order: [(user: Int, age: Int)], history: History, round: Int) throws -> Turn {
        try become("pause", "PAUSED")
        let time = people.time(ofRound: round)
        var last: [Int: (user: UserID, day: CalendarDay)] = [:]
        for (user, age) in order {
            let day = people.today.advanced(by: -age)
            let id = People.user(user)
            let values = People.values(user, day, round: history.round(ofAge: age))
            let place = try publisher.publish(user: id, Self.record(id, day, values, time))
            last[place.partition] = (id, day)
        }
        try publisher.flush()
        try database.checkpoint()
        let databaseCPU = database.cpu(without: looking)
        let cpu = ProcessTimes.cpu(child.identity.pid) ?? .nan
        let condition = last.values.map { "(user_id = '\($0.user)' AND day = '\($0.day)')" }.joined(separator: " OR ")
        let sql = "SELECT FROM source_days WHERE (\(condition)) AND observed_at = '\(time)'"
        try become("resume", "RUNNING")
        let begun = monotonicSeconds()
        try Eventually.holds("the sink to get to the topic's end (see \(log))", seconds: 300) {
            try self.looking.executeUnprepared(sql).rowCount == last.count
        }
        return Turn(
            days: order.count,
            seconds: monotonicSeconds() - begun,
            workerCPU: (ProcessTimes.cpu(child.identity.pid) ?? .nan) - cpu,
            postgresCPU: database.cpu(without: looking) - databaseCPU
        )
    }

    private static func record(_ user: UserID, _ day: CalendarDay, _ values: MetricValues, _ time: Instant) -> [UInt8] {
        func tenths(_ metric: Metric) -> String {
            let value = values[metric] ?? 0
            return "\(value / 10).\(value % 10)"
        }
        func whole(_ metric: Metric) -> Int32 { (values[metric] ?? 0) / 10 }
        let text = """
            {"user_id":"\(user)","day":\(day.daysSinceEpoch),"source":"apple_health","steps":\(whole(.steps)),\
            "active_energy_kcal":\(tenths(.activeEnergy)),"sleep_minutes":\(whole(.sleepMinutes)),\
            "resting_heart_rate_bpm":\(whole(.restingHeartRate)),"hrv_sdnn_ms":\(tenths(.hrvSDNN)),\
            "distance_m":\(tenths(.distance)),"observed_at":"\(time)"}
            """
        return Array(text.utf8)
    }

    // MARK: Connect's REST API

    private func call(_ method: String, _ path: String) -> String? {
        guard let rest = try? String(contentsOfFile: folder + "/rest", encoding: .utf8) else { return nil }
        let url = rest.trimmingCharacters(in: .whitespacesAndNewlines) + path
        return try? HTTPCall(method, url, timeout: 5).send().text
    }

    private func isInState(_ state: String) -> Bool {
        guard let text = call("GET", "/connectors/days/status"), let tasks = text.range(of: "\"tasks\"") else {
            return false
        }
        return text[tasks.upperBound...].contains("\"state\":\"\(state)\"")
    }

    private func become(_ verb: String, _ state: String) throws {
        _ = call("PUT", "/connectors/days/\(verb)")
        try Eventually.holds("Connect to be \(state) (see \(log))") { self.isInState(state) }
    }
}
