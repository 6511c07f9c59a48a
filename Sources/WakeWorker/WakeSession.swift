internal import Configuration
internal import Postgres
internal import Storage
internal import WorkerProgram

/// A session of the wake worker: its statements are planned as the batch's are.
enum WakeSession {
    static func open(_ configuration: WakeConfiguration, _ name: String) throws(PostgresError) -> PostgresConnection {
        try DatabaseSession.open(configuration.database, name: "wake \(name)", BatchStore.sessionSettings)
    }
}
