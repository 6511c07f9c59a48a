import Domain
import Glibc
import Testing

@testable import Push

/// What is handed to a lane, and whether it is woken for it.
@Suite struct InboxTests {
    private func request(_ id: UInt64) -> PushRequest {
        PushRequest(id: id, token: PushToken("aa"), lane: .production, appID: "", expiration: Scene.now)
    }

    private func isSignalled(_ inbox: LaneInbox) -> Bool {
        var entry = pollfd(fd: inbox.wake.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) == 1
    }

    @Test func `a lane is woken only while it waits, and does not wait while there is something for it`() {
        let inbox = LaneInbox()
        var taken: [PushRequest] = []
        #expect(inbox.put(request(1)) && !isSignalled(inbox))
        #expect(!inbox.beginWaiting())
        _ = inbox.take(&taken)
        #expect(taken.map(\.id) == [1] && inbox.beginWaiting())
        #expect(inbox.put(request(2)) && isSignalled(inbox))
        inbox.wake.clear()
        // Woken already.
        #expect(inbox.put(request(3)) && !isSignalled(inbox))
        taken = []
        _ = inbox.take(&taken)
        #expect(taken.map(\.id) == [2, 3])
        // It works: what comes of that is looked at before it waits again.
        #expect(inbox.put(request(4)) && !isSignalled(inbox) && !inbox.beginWaiting())
        inbox.close()
        taken = []
        _ = inbox.take(&taken)
        #expect(!inbox.put(request(5)) && !inbox.beginWaiting())
    }
}
