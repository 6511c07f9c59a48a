import HTTP2
import ServiceRuntime
import Synchronization

/// Asks for addresses on a thread of its own, since the system's resolver blocks.
final class Resolver: Sendable {
    typealias Reply = @Sendable (Result<[Address], HTTP2Failure>) -> Void

    private struct Question {
        let endpoint: PushConfiguration.Endpoint
        let reply: Reply
    }

    private let questions = Mutex<[Question]>([])
    private let wake = Wake()
    private let isStopped = StopFlag()

    /// The reply comes on the resolver's thread.
    func ask(_ endpoint: PushConfiguration.Endpoint, reply: @escaping Reply) {
        questions.withLock { $0.append(Question(endpoint: endpoint, reply: reply)) }
        wake.signal()
    }

    func stop() {
        isStopped.raise()
        wake.signal()
    }

    /// The thread's body.
    func run() {
        while !isStopped.isRaised {
            let asked = questions.withLock { questions in
                defer { questions = [] }
                return questions
            }
            for question in asked { question.reply(answer(question.endpoint)) }
            if asked.isEmpty { wake.wait(milliseconds: 60_000) }
        }
    }

    private func answer(_ endpoint: PushConfiguration.Endpoint) -> Result<[Address], HTTP2Failure> {
        do throws(HTTP2Failure) {
            return .success(try Address.resolve(host: endpoint.host, port: endpoint.port))
        } catch {
            return .failure(error)
        }
    }
}
