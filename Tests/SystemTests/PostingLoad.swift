import Domain
import Foundation
import Synchronization
import TestSupport

/// Threads that post without pause, each on a connection of its own, and remember what they were told.
final class PostingLoad: Sendable {
    struct Outcome {
        /// The event ids of requests that were answered 2xx.
        var accepted: [String] = []
        var statuses: [Int: Int] = [:]
        /// Requests that met a closed connection or none, before any byte of an answer.
        var closed = 0
        /// What must not be: half an answer, or none in time.
        var broken: [String] = []
    }

    private let state = Mutex(Outcome())
    private let isStopped = Atomic<Bool>(false)
    private let group = DispatchGroup()

    var outcome: Outcome { state.withLock { $0 } }

    init(port: UInt16, connections: Int = 4, users: [(token: String, body: String)]) {
        for index in 0..<connections {
            group.enter()
            Thread.detachNewThread { [self] in
                run(port, users[index % users.count])
                group.leave()
            }
        }
    }

    func waitForAccepted(_ count: Int) throws {
        try Eventually.holds("\(count) requests are accepted") { outcome.accepted.count >= count }
    }

    /// Ends the posting, once every thread has its answer.
    func stop() throws {
        isStopped.store(true, ordering: .relaxed)
        guard group.wait(timeout: .now() + 30) == .success else { throw Eventually.TimedOut(what: "the load's end") }
    }

    /// Until a thread meets a server that is gone, or the load is stopped.
    private func run(_ port: UInt16, _ user: (token: String, body: String)) {
        let bytes = HTTPConnection.bytes("POST", "/v1/days", token: user.token, body: Array(user.body.utf8))
        do {
            var connection = try HTTPConnection(port: port)
            while !isStopped.load(ordering: .relaxed) {
                connection.send(bytes)
                let answer = try connection.answer()
                let event = answer.status == 202 ? AnswerBody(answer.body).eventID : nil
                state.withLock { state in
                    state.statuses[answer.status, default: 0] += 1
                    if let event { state.accepted.append(event) }
                }
                if answer.header("Connection")?.lowercased() == "close" { connection = try HTTPConnection(port: port) }
            }
        } catch {
            state.withLock { state in
                switch error as? HTTPConnection.Failure {
                case .refused?, .closed?: state.closed += 1
                default: state.broken.append("\(error)")
                }
            }
        }
    }
}
