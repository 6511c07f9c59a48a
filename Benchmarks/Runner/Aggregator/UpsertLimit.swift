import DevelopmentStack
import Domain
import Glibc
import Postgres
import Storage

/// How fast one connection can write at all: the changed rows of both tables, encoded before the clock runs, two
/// upserts a transaction. It reads nothing, locks no account, keeps no position.
final class UpsertLimit {
    private static let daysInBatch = 2000
    private let database: BenchmarkDatabase
    private let looking: PostgresConnection
    private let connection: PostgresConnection
    private let sources, canonical: PostgresPrepared

    init(_ database: BenchmarkDatabase, name: String) throws {
        self.database = database
        looking = try database.look(into: name)
        connection = try PostgresConnection(
            url: database.url(name),
            applicationName: "limit",
            settings: BatchStore.sessionSettings
        )
        let names = MetricLedger.definitions.map { $0.name.description }
        let sets = names.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        func values(from first: Int) -> String {
            names.indices.map { "unnest($\(first + $0)::real[])" }.joined(separator: ", ")
        }
        let columns = names.joined(separator: ", ")
        sources = try connection.prepare(
            "sources",
            """
            INSERT INTO source_days (user_id, day, source, origin, closed, version, versions, \(columns))
            SELECT unnest($1::uuid[]), unnest($2::date[]), 1, '', unnest($3::int4[]), unnest($4::int8[]), NULL,
                \(values(from: 5))
            ON CONFLICT (user_id, day, source, origin) DO UPDATE
            SET closed = excluded.closed, version = excluded.version, versions = excluded.versions, \(sets)
            """
        )
        canonical = try connection.prepare(
            "canonical",
            """
            INSERT INTO canonical_days
                (user_id, day, rule_version, final, winner_sources, winner_origins, \(columns))
            SELECT unnest($1::uuid[]), unnest($2::date[]), 1, true, unnest($3::bytea[]), NULL, \(values(from: 4))
            ON CONFLICT (user_id, day) DO UPDATE
            SET rule_version = excluded.rule_version, final = excluded.final, winner_sources = excluded.winner_sources,
                winner_origins = excluded.winner_origins, \(sets)
            """
        )
    }

    /// Every user's newest days, in batches of the order given, sorted inside.
    func write(users: [Int], _ people: People, days: Int, round: Int) throws -> Turn {
        let databaseCPU = database.cpu(without: looking)
        var seconds = 0.0
        let size = max(1, Self.daysInBatch / days)
        var next = users.startIndex
        while next < users.endIndex {
            let end = min(next + size, users.endIndex)
            let batch = encode(users[next..<end], people, days: days, round: round)
            let begun = monotonicSeconds()
            let results = try connection.pipeline { pipeline in
                pipeline.begin()
                pipeline.execute(sources, batch.sources)
                pipeline.execute(canonical, batch.canonical)
                pipeline.commit()
            }
            seconds += monotonicSeconds() - begun
            guard results.last?.isCommitted == true else { throw BenchmarkFailure("a COMMIT was answered ROLLBACK") }
            next = end
        }
        return Turn(
            days: users.count * days,
            seconds: seconds,
            postgresCPU: database.cpu(without: looking) - databaseCPU
        )
    }

    private func encode(
        _ users: ArraySlice<Int>,
        _ people: People,
        days: Int,
        round: Int
    ) -> (sources: PostgresParameters, canonical: PostgresParameters) {
        var ids = PostgresArray(of: .uuid)
        var dates = PostgresArray(of: .date)
        var closed = PostgresArray(of: .int4)
        var versions = PostgresArray(of: .int8)
        var winners = PostgresArray(of: .bytea)
        var values = (0..<Metric.count).map { _ in PostgresArray(of: .float4) }
        let version = Version(
            observedAt: nil,
            receivedAt: people.time(ofRound: round),
            event: UUID128(high: 0, low: 0)
        )
        for (id, user) in users.map({ (People.user($0), $0) }).sorted(by: { $0.0 < $1.0 }) {
            for age in (0..<days).reversed() {
                let day = people.today.advanced(by: -age)
                let reading = People.values(user, day, round: round)
                ids.append(uuidHigh: id.high, low: id.low)
                dates.append(date: day.daysSinceEpoch)
                closed.append(int4: Int32(bitPattern: age == 0 ? 0 : reading.mask.rawValue))
                versions.append(int8: version.rawValue)
                winners.append(bytea: Array(repeating: UInt8(1), count: reading.mask.count).span)
                for metric in reading.mask {
                    values[metric.index].append(float4: Float(Double(reading[metric] ?? 0) / 10))
                }
            }
        }
        var sources = PostgresParameters()
        var canonical = PostgresParameters()
        sources.append(ids)
        sources.append(dates)
        sources.append(closed)
        sources.append(versions)
        canonical.append(ids)
        canonical.append(dates)
        canonical.append(winners)
        for metric in Metric.allCases {
            sources.append(values[metric.index])
            canonical.append(values[metric.index])
        }
        return (sources, canonical)
    }
}
