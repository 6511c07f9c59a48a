import Foundation
import Synchronization

/// Something that is done on a thread of its own, beside the test.
public final class Background: Sendable {
    private let result = Mutex<Result<Void, any Error>?>(nil)
    private let done = DispatchSemaphore(value: 0)

    public init(_ body: @escaping @Sendable () throws -> Void) {
        Thread.detachNewThread { [self] in
            let outcome = Result { try body() }
            result.withLock { $0 = outcome }
            done.signal()
        }
    }

    /// Once: waits for its end, and throws what it threw.
    public func wait(seconds: Int = 90) throws {
        guard done.wait(timeout: .now() + .seconds(seconds)) == .success else {
            throw Eventually.TimedOut(what: "something in the background")
        }
        try result.withLock { $0 }?.get()
    }
}
