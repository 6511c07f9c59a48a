/// What became of one statement of a pipeline.
public enum PostgresOutcome {
    case finished(PostgresResult)
    case failed(PostgresError)
    /// Not run, because a statement before it failed.
    case skipped

    /// The result of a statement that had to succeed.
    public func result() throws(PostgresError) -> PostgresResult {
        switch self {
        case .finished(let result): return result
        case .failed(let error): throw error
        case .skipped: throw PostgresError(message: "a statement was skipped without an error before it")
        }
    }
}

/// Collects statements that go to the server together and cost one round trip; see `PostgresConnection.pipeline`.
public struct PostgresPipeline {
    private let connection: PostgresConnection
    private let handle: ConnectionHandle
    /// How many statements were queued.
    public private(set) var count = 0
    /// Of as many statements as were answered and read.
    private(set) var outcomes: [PostgresOutcome] = []
    private(set) var failure: PostgresError?
    /// Behind how many statements the server was asked to say where it is.
    private(set) var syncs: Set<Int> = []

    init(_ connection: PostgresConnection, _ handle: ConnectionHandle) {
        self.connection = connection
        self.handle = handle
    }

    /// Parameters are copied: they may be reset and used again at once.
    public mutating func execute(
        _ prepared: PostgresPrepared,
        _ parameters: borrowing PostgresParameters = PostgresParameters()
    ) {
        guard failure == nil else { return }
        do throws(PostgresError) {
            try handle.send(execute: prepared.name, parameters)
            count += 1
        } catch {
            fail(error)
        }
    }

    public mutating func executeUnprepared(
        _ sql: String,
        _ parameters: borrowing PostgresParameters = PostgresParameters()
    ) {
        guard failure == nil else { return }
        do throws(PostgresError) {
            try handle.send(execute: sql, unprepared: parameters)
            count += 1
        } catch {
            fail(error)
        }
    }

    public mutating func prepare(_ name: String, _ sql: String, parameterTypes: [PostgresType] = []) -> PostgresPrepared
    {
        if failure == nil {
            do throws(PostgresError) {
                try handle.send(prepare: name, sql, parameterTypes)
                count += 1
            } catch {
                fail(error)
            }
        }
        return PostgresPrepared(name: name)
    }

    public mutating func begin() { executeUnprepared("BEGIN") }

    /// Look at its result: `isCommitted` is false where the server rolled back instead.
    public mutating func commit() { executeUnprepared("COMMIT") }

    /// Only inside a transaction of its own, begun before: tells the server that this is a place to wait at. It waits in
    /// the middle of a pipeline for ever, whatever its time-outs, with every lock that was taken; behind a sync it counts
    /// as idle in the transaction. After an error the statements behind a sync fail as well instead of being skipped.
    public mutating func sync() {
        guard failure == nil, !syncs.contains(count) else { return }
        do throws(PostgresError) {
            try handle.sendPipelineSync()
            syncs.insert(count)
        } catch {
            fail(error)
        }
    }

    /// Waits for a statement's result while those behind it are on their way: what is made of it here is made while the
    /// server works on them. Only inside a transaction of its own, as it puts a `sync` behind the statement if none is.
    ///
    /// - Parameter index: the statement's, from 0; all before it have to succeed too.
    /// - Returns: its result.
    /// - Throws: its failure, or that of the first before it that failed.
    public mutating func result(of index: Int) throws(PostgresError) -> PostgresResult {
        if let failure { throw failure }
        guard (0..<count).contains(index) else {
            throw PostgresError(message: "the pipeline has no statement \(index) yet")
        }
        if !syncs.contains(where: { $0 > index }) { sync() }
        let known = outcomes.count
        try read(through: index + 1)
        for outcome in outcomes[min(known, index)...index].dropLast() { _ = try outcome.result() }
        return try outcomes[index].result()
    }

    /// Reads what was not read yet of the first so many outcomes, with the answers to the syncs among and behind them.
    mutating func read(through end: Int) throws(PostgresError) {
        while outcomes.count < end {
            outcomes.append(try connection.readOutcome(handle, index: outcomes.count))
            if handle.isBroken { throw ConnectionHandle.lostError }
            guard syncs.contains(outcomes.count) else { continue }
            guard try connection.nextResult(handle)?.status == .pipelineSync else { throw ConnectionHandle.lostError }
        }
    }

    /// What was not answered is lost with the connection.
    mutating func lose(_ error: PostgresError) {
        while outcomes.count < count {
            var lost = error
            lost.statementIndex = outcomes.count
            lost.connectionLost = true
            outcomes.append(.failed(lost))
        }
    }

    private mutating func fail(_ error: PostgresError) {
        var error = error
        error.statementIndex = count
        failure = error
    }
}

extension PostgresConnection {
    /// Sends what `fill` queues and reads the results in order, in one round trip.
    ///
    /// The server stops at the first error and skips the rest; afterwards the connection is usable. Without `begin()`
    /// all statements form one transaction of their own. With it, an error leaves the transaction failed: send ROLLBACK.
    ///
    /// - Returns: one outcome for each queued statement. A lost connection is an outcome too: everything that had not
    ///   been answered has failed with `connectionLost`.
    /// - Throws: when nothing was run: the connection was broken before, or the parameters have a fault, which closes
    ///   the connection because some statements may be on their way.
    public func pipelineOutcomes(_ fill: (inout PostgresPipeline) -> Void) throws(PostgresError) -> [PostgresOutcome] {
        try run { (pipeline: inout PostgresPipeline) throws(Never) -> Void in fill(&pipeline) }.outcomes
    }

    /// As `pipelineOutcomes`, for a transaction of its own in which what is sent depends on what came back: `converse`
    /// may take results (`PostgresPipeline.result`) and queue more by them. Its error is thrown once the connection is
    /// usable again; the transaction is open or failed then: send ROLLBACK.
    public func conversation(_ converse: (inout PostgresPipeline) throws -> Void) throws -> [PostgresOutcome] {
        let (outcomes, failure) = try run(converse)
        if let failure { throw failure }
        return outcomes
    }

    private func run<Failure: Error>(
        _ fill: (inout PostgresPipeline) throws(Failure) -> Void
    ) throws(PostgresError) -> (outcomes: [PostgresOutcome], failure: Failure?) {
        let handle = try open()
        try handle.enterPipeline()
        var pipeline = PostgresPipeline(self, handle)
        var thrown: Failure?
        do throws(Failure) { try fill(&pipeline) } catch { thrown = error }
        if let failure = pipeline.failure {
            close()
            throw failure
        }
        do throws(PostgresError) {
            try handle.sendPipelineSync()
            try pipeline.read(through: pipeline.count)
            while let result = try nextResult(handle), result.status != .pipelineSync {
                if handle.isBroken { throw ConnectionHandle.lostError }
            }
            try handle.exitPipeline()
        } catch {
            if !handle.isBroken { close() }
            pipeline.lose(error)
        }
        return (pipeline.outcomes, thrown)
    }

    /// As `pipelineOutcomes`, for callers that need every statement to succeed.
    ///
    /// - Returns: the results, one for each queued statement.
    /// - Throws: the first failure, with its `statementIndex`.
    @discardableResult
    public func pipeline(_ fill: (inout PostgresPipeline) -> Void) throws(PostgresError) -> [PostgresResult] {
        var results: [PostgresResult] = []
        for outcome in try pipelineOutcomes(fill) { results.append(try outcome.result()) }
        return results
    }

    /// One statement's result and the nil that ends it.
    fileprivate func readOutcome(_ handle: ConnectionHandle, index: Int) throws(PostgresError) -> PostgresOutcome {
        var outcome: PostgresOutcome?
        while let result = try nextResult(handle) {
            switch result.status {
            case .command, .rows:
                outcome = .finished(PostgresResult(result))
            case .pipelineAborted:
                outcome = .skipped
            case .failed:
                var error = handle.error(of: result)
                error.statementIndex = index
                outcome = .failed(error)
                if handle.isBroken { return .failed(error) }
            case .pipelineSync, .copy:
                throw PostgresError(message: "the pipeline's answers are out of step; the connection is closed")
            }
        }
        guard let outcome else { throw ConnectionHandle.lostError }
        return outcome
    }
}
