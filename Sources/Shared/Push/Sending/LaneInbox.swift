import HTTP2
import Synchronization

/// What other threads hand to a lane.
final class LaneInbox: Sendable {
    private struct State {
        var requests: [PushRequest] = []
        var addresses: Result<[Address], HTTP2Failure>?
        var isClosed = false
        /// The lane waits or is about to: whoever puts something in has to wake it.
        var isWaiting = false

        var isEmpty: Bool { requests.isEmpty && addresses == nil && !isClosed }

        mutating func takeWaiting() -> Bool {
            defer { isWaiting = false }
            return isWaiting
        }
    }

    private let state = Mutex(State())
    let wake = Wake()

    /// False once the lane takes nothing more.
    func put(_ request: PushRequest) -> Bool {
        let (isTaken, isWaiting) = state.withLock { state in
            guard !state.isClosed else { return (false, false) }
            state.requests.append(request)
            return (true, state.takeWaiting())
        }
        if isWaiting { wake.signal() }
        return isTaken
    }

    /// The lane is about to wait. False: there is something for it already. What is put in from here on wakes it; what
    /// it puts in itself, while it works, costs no call of the system.
    func beginWaiting() -> Bool {
        state.withLock { state in
            state.isWaiting = state.isEmpty
            return state.isWaiting
        }
    }

    func put(_ addresses: Result<[Address], HTTP2Failure>) {
        state.withLock { $0.addresses = addresses }
        wake.signal()
    }

    /// All that came since; the array given takes their place, so that its memory is used again.
    func take(_ requests: inout [PushRequest]) -> Result<[Address], HTTP2Failure>? {
        state.withLock { state in
            swap(&state.requests, &requests)
            state.isWaiting = false
            defer { state.addresses = nil }
            return state.addresses
        }
    }

    func close() {
        state.withLock { $0.isClosed = true }
        wake.signal()
    }

    var isClosed: Bool { state.withLock(\.isClosed) }
}
