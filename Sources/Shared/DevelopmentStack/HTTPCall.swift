import Dispatch
public import Foundation
import FoundationNetworking
import Synchronization

/// One HTTP exchange that blocks until it is over; for tools, which do one thing at a time.
public struct HTTPCall: Sendable {
    public struct Answer: Sendable {
        public let status: Int
        public let body: Data
        public let contentType: String?

        public init(status: Int, body: Data, contentType: String?) {
            self.status = status
            self.body = body
            self.contentType = contentType
        }

        public var text: String { String(decoding: body, as: UTF8.self) }
    }

    public enum Failure: Error, Hashable, Sendable {
        case badURL
        /// Nobody listens there, or the connection broke.
        case unreachable(String)
        case timedOut
    }

    public var method: String
    public var url: String
    public var headers: [String: String]
    public var body: Data?
    /// Seconds for the whole exchange.
    public var timeout: Double

    public init(
        _ method: String = "GET",
        _ url: String,
        headers: [String: String] = [:],
        body: Data? = nil,
        timeout: Double = 30
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
    }

    /// Proxies of the environment are for the outside, never for a local stack.
    private static let session: URLSession = {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.connectionProxyDictionary = [:]
        return URLSession(configuration: configuration)
    }()

    public func send() throws(Failure) -> Answer {
        guard let address = URL(string: url), address.host != nil else { throw .badURL }
        var request = URLRequest(url: address, timeoutInterval: timeout)
        request.httpMethod = method
        request.httpBody = body
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }

        let box = Mutex<Result<Answer, Failure>?>(nil)
        let done = DispatchSemaphore(value: 0)
        let outcome = Outcome(box: box)
        let task = Self.session.dataTask(with: request) { data, response, error in
            outcome.set(data, response, error)
            done.signal()
        }
        task.resume()
        if done.wait(timeout: .now() + timeout + 1) == .timedOut {
            task.cancel()
            throw .timedOut
        }
        return try (outcome.value ?? .failure(.timedOut)).get()
    }

    /// Where the answer waits for the thread that asked.
    private final class Outcome: Sendable {
        private let box: Mutex<Result<Answer, Failure>?>

        init(box: consuming Mutex<Result<Answer, Failure>?>) {
            self.box = box
        }

        var value: Result<Answer, Failure>? { box.withLock { $0 } }

        func set(_ data: Data?, _ response: URLResponse?, _ error: (any Error)?) {
            let result: Result<Answer, Failure>
            if let response = response as? HTTPURLResponse {
                let type = response.value(forHTTPHeaderField: "Content-Type")
                result = .success(Answer(status: response.statusCode, body: data ?? Data(), contentType: type))
            } else if let error = error as? URLError, error.code == .timedOut {
                result = .failure(.timedOut)
            } else {
                result = .failure(.unreachable(error?.localizedDescription ?? "no answer"))
            }
            box.withLock { $0 = result }
        }
    }
}

extension HTTPCall {
    /// Whether `/readyz` on an admin address answers 200.
    public static func isReady(adminAddress: String, timeout: Double = 1) -> Bool {
        let answer = try? HTTPCall("GET", "http://\(adminAddress)/readyz", timeout: timeout).send()
        return answer?.status == 200
    }
}
