/// What one contender did in one turn.
struct Turn {
    let days: Int
    let seconds: Double
    /// Of the worker's process, in seconds; nil where it is not of interest.
    var workerCPU: Double?
    /// Of PostgreSQL with its background processes, in seconds.
    var postgresCPU: Double?

    var rate: Double { Double(days) / seconds }
    var workerMicroseconds: Double? { workerCPU.map { $0 * 1e6 / Double(days) } }
    var postgresMicroseconds: Double? { postgresCPU.map { $0 * 1e6 / Double(days) } }
}
