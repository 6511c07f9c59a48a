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
    private let handle: ConnectionHandle
    private(set) var count = 0
    private(set) var failure: PostgresError?
    /// Behind how many statements the server was asked to say where it is.
    private(set) var syncs: Set<Int> = []

    init(_ handle: ConnectionHandle) {
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
        let handle = try open()
        try handle.enterPipeline()
        var pipeline = PostgresPipeline(handle)
        fill(&pipeline)
        if let failure = pipeline.failure {
            close()
            throw failure
        }
        var outcomes: [PostgresOutcome] = []
        outcomes.reserveCapacity(pipeline.count)
        do throws(PostgresError) {
            try handle.sendPipelineSync()
            while outcomes.count < pipeline.count {
                outcomes.append(try readOutcome(handle, index: outcomes.count))
                if handle.isBroken { throw ConnectionHandle.lostError }
                guard pipeline.syncs.contains(outcomes.count) else { continue }
                guard try nextResult(handle)?.status == .pipelineSync else { throw ConnectionHandle.lostError }
            }
            while let result = try nextResult(handle), result.status != .pipelineSync {
                if handle.isBroken { throw ConnectionHandle.lostError }
            }
            try handle.exitPipeline()
        } catch {
            if !handle.isBroken { close() }
            while outcomes.count < pipeline.count {
                var lost = error
                lost.statementIndex = outcomes.count
                lost.connectionLost = true
                outcomes.append(.failed(lost))
            }
        }
        return outcomes
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
    private func readOutcome(_ handle: ConnectionHandle, index: Int) throws(PostgresError) -> PostgresOutcome {
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
