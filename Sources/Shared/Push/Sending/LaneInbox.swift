import HTTP2
import Synchronization

/// What other threads hand to a lane.
final class LaneInbox: Sendable {
    private struct State {
        var requests: [PushRequest] = []
        var addresses: Result<[Address], HTTP2Failure>?
        var isClosed = false
    }

    private let state = Mutex(State())
    let wake = Wake()

    /// False once the lane takes nothing more.
    func put(_ request: PushRequest) -> Bool {
        let (isTaken, isFirst) = state.withLock { state in
            guard !state.isClosed else { return (false, false) }
            state.requests.append(request)
            return (true, state.requests.count == 1)
        }
        if isFirst { wake.signal() }
        return isTaken
    }

    func put(_ addresses: Result<[Address], HTTP2Failure>) {
        state.withLock { $0.addresses = addresses }
        wake.signal()
    }

    /// All that came since; the array given takes their place, so that its memory is used again.
    func take(_ requests: inout [PushRequest]) -> Result<[Address], HTTP2Failure>? {
        state.withLock { state in
            swap(&state.requests, &requests)
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
