import Glibc
import ServiceRuntime
import Synchronization
import Testing

/// The longest that a test waits for something that should come at once.
let limit = 10_000

struct StopFlagTests {
    @Test func `raising wakes a waiting thread`() throws {
        let flag = StopFlag()
        let seen = Witness()
        let thread = try WorkerThread.spawn(name: "waits") {
            seen.entered.raise()
            if flag.wait(milliseconds: limit) { seen.left.raise() }
        }
        #expect(seen.entered.wait(milliseconds: limit))
        #expect(!seen.left.isRaised)
        flag.raise()
        flag.raise()
        #expect(thread.join(milliseconds: limit))
        #expect(seen.left.isRaised)
    }

    @Test func `waiting ends with the time when nobody raises`() {
        let flag = StopFlag()
        #expect(!flag.wait(milliseconds: 1))
        #expect(!flag.wait(milliseconds: 0))
        #expect(!flag.wait(milliseconds: -1))
        flag.raise()
        #expect(flag.wait(milliseconds: 0))
        flag.wait()
    }

    @Test func `its descriptor is readable for ever once it is raised`() {
        let flag = StopFlag()
        func readable() -> Bool {
            var entry = pollfd(fd: flag.fileDescriptor, events: Int16(POLLIN), revents: 0)
            return poll(&entry, 1, 0) == 1
        }
        #expect(!readable())
        flag.raise()
        #expect(readable() && readable())
    }

    @Test func `no descriptor is left behind`() {
        let before = StopFlag().fileDescriptor
        for _ in 0..<2000 { StopFlag().raise() }
        // Other tests open descriptors too: what counts is that these flags did not keep four thousand.
        #expect(StopFlag().fileDescriptor < before + 1000)
    }
}

final class Witness: Sendable {
    let entered = StopFlag()
    let left = StopFlag()
}

struct WorkerThreadTests {
    @Test func `a thread carries its name and can be joined more than once`() throws {
        let name = Mutex("")
        let seen = Witness()
        let shared = Shared(name)
        let thread = try WorkerThread.spawn(name: "lane-7 of many lanes", stackSize: 1) {
            shared.value.withLock { $0 = currentThreadName() }
            seen.left.raise()
        }
        #expect(thread.join(milliseconds: limit))
        #expect(thread.join())
        #expect(thread.isFinished && seen.left.isRaised)
        #expect(shared.value.withLock { $0 } == "lane-7 of many ")
    }

    @Test func `joining gives up at the deadline and can be done later`() throws {
        let release = StopFlag()
        let thread = try WorkerThread.spawn(name: "slow") { release.wait(milliseconds: limit) }
        #expect(!thread.join(milliseconds: 1))
        #expect(!thread.isFinished)
        release.raise()
        #expect(thread.join(milliseconds: limit))
    }

    @Test func `a thread that nobody joins runs on and ends by itself`() throws {
        let seen = Witness()
        let release = StopFlag()
        do {
            _ = try WorkerThread.spawn(name: "alone") {
                release.wait(milliseconds: limit)
                seen.left.raise()
            }
        }
        release.raise()
        #expect(seen.left.wait(milliseconds: limit))
    }
}

final class Shared<Value: Sendable>: Sendable {
    let value: Mutex<Value>

    init(_ value: consuming sending Mutex<Value>) {
        self.value = value
    }
}

private func currentThreadName() -> String {
    let file = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return "" }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 32)
    let count = read(file, &bytes, bytes.count)
    return String(decoding: bytes.prefix(max(count - 1, 0)), as: UTF8.self)
}
