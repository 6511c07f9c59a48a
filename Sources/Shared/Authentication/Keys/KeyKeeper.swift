public import Domain
public import Observability
public import ServiceRuntime
import Synchronization

/// Keeps a ring's keys as their sources have them: looks at the files every two seconds and fetches the JWKS, on a
/// thread of its own. What can't be read or fetched leaves the keys as they are.
public final class KeyKeeper: Sendable {
    static let fileInterval: Int64 = 2_000_000_000

    /// What is known of the keys.
    public struct Status: Sendable {
        public fileprivate(set) var counts: [TokenAlgorithm: Int] = [:]
        /// By source: when all of it was last found in order.
        public fileprivate(set) var lastSuccess: [KeySources.Kind: Instant] = [:]
        /// By source: looks and fetches that failed.
        public fileprivate(set) var failures: [KeySources.Kind: Int] = [:]

        /// Some key is there.
        public var isUsable: Bool { counts.values.contains { $0 > 0 } }
    }

    public let ring: KeyRing
    private let fetcher: any KeyFetcher
    private let time: any TimeSource
    private let log: Log
    private let onUsable: @Sendable () -> Void
    /// Held for a whole turn, fetch included: nobody but the turn takes it.
    private let sources: Mutex<Sources>
    private let known = Mutex(Status())
    private let stop = StopFlag()
    /// Raised to end a wait early; a new one takes its place then.
    private let wake = Mutex(StopFlag())
    private let thread = Mutex<WorkerThread?>(nil)
    private let fetchesKeys: Bool
    private let turnCount = Atomic<Int>(0)

    private struct Sources {
        var secrets = KeySet()
        var files: [KeyFile]
        var url: String?
        var fetched = KeySet()
        var schedule: RefreshSchedule
        var nextLook: Int64

        var joined: KeySet { KeySet(joining: [secrets] + files.map(\.keys) + [fetched]) }
    }

    /// Takes the secrets and reads the files; what is fetched comes later.
    ///
    /// - Parameters:
    ///   - given: where the keys come from.
    ///   - fetcher: gets the JWKS of a URL.
    ///   - time: the clocks.
    ///   - log: told of changes and failures.
    ///   - onUsable: called once the first key is there, on this or the keeper's thread.
    /// - Throws: when there is no source, or one of the files is not in order.
    public init(
        _ given: KeySources,
        fetcher: any KeyFetcher,
        time: any TimeSource = SystemTime(),
        log: Log = .disabled,
        onUsable: @escaping @Sendable () -> Void = {}
    ) throws(Failure) {
        self.fetcher = fetcher
        self.time = time
        self.log = log
        self.onUsable = onUsable
        fetchesKeys = given.jwksURL != nil
        let now = time.monotonicNanoseconds()
        var sources = Sources(
            files: given.files.map { KeyFile($0.kind, $0.path) },
            url: given.jwksURL,
            schedule: RefreshSchedule(interval: Int64(max(given.refreshSeconds, 1)) * 1_000_000_000, now: now),
            nextLook: now + Self.fileInterval
        )
        if !given.secrets.isEmpty {
            do throws(KeyFailure) {
                sources.secrets = try KeySet(secrets: given.secrets)
            } catch {
                throw Failure(path: nil, reason: error)
            }
        }
        for index in sources.files.indices {
            if case .broken(let reason) = sources.files[index].look() {
                throw Failure(path: sources.files[index].path, reason: reason)
            }
        }
        guard !sources.joined.isEmpty || sources.url != nil else {
            throw Failure(path: nil, reason: KeyFailure(.noKeys))
        }
        ring = KeyRing(sources.joined)
        let wall = Instant(microseconds: time.wallMicroseconds())
        known.withLock { status in
            for file in sources.files { status.lastSuccess[file.kind] = wall }
        }
        self.sources = Mutex(sources)
        publish(sources.joined)
    }

    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// The file, if it is one.
        public let path: String?
        public let reason: KeyFailure

        public var description: String { (path.map { "\($0): " } ?? "") + reason.description }
    }

    public var status: Status { known.withLock { $0 } }

    /// Starts the thread.
    public func start() throws {
        // Without a URL there is nobody to ask: tokens with made-up keys must not wake the thread again and again.
        if fetchesKeys { ring.whenKeyIsUnknown { [weak self] in self?.endWait() } }
        let started = try WorkerThread.spawn(name: "keys") { [self] in
            while !stop.isRaised {
                let milliseconds = turn()
                let flag = wake.withLock { $0 }
                if flag.wait(milliseconds: milliseconds) { wake.withLock { $0 = StopFlag() } }
            }
        }
        thread.withLock { $0 = started }
    }

    /// A fetch that is under way is given up.
    public func beginStop() {
        stop.raise()
        endWait()
    }

    public func waitStopped(until deadline: Deadline) -> Bool {
        thread.withLock { $0 }?.join(until: deadline) ?? true
    }

    private func endWait() { wake.withLock { $0 }.raise() }

    /// How often the thread looked, for tests.
    var turns: Int { turnCount.load(ordering: .relaxed) }

    /// Does what is due; returns how long nothing will be, in milliseconds.
    func turn() -> Int {
        turnCount.wrappingAdd(1, ordering: .relaxed)
        return sources.withLock { sources in
            let now = time.monotonicNanoseconds()
            var hasChanged = false
            if now >= sources.nextLook {
                hasChanged = look(&sources.files)
                sources.nextLook = now + Self.fileInterval
            }
            if hasChanged { publish(sources.joined) }
            if let url = sources.url {
                if ring.hasUnknownKey { sources.schedule.keyIsUnknown(now) }
                if sources.schedule.isDue(now) { refresh(url, &sources, now) }
            }
            var next = sources.files.isEmpty ? Int64.max : sources.nextLook
            if sources.url != nil { next = min(next, sources.schedule.due) }
            guard next != .max else { return 60_000 }
            return Int(max(0, min(next - time.monotonicNanoseconds(), 60_000_000_000)) / 1_000_000) + 1
        }
    }

    /// Whether a file has other keys now.
    private func look(_ files: inout [KeyFile]) -> Bool {
        var hasChanged = false
        for index in files.indices {
            switch files[index].look() {
            case .none: break
            case .keys:
                hasChanged = true
                log.info("keys were read anew", [.path: .text(files[index].path)])
            case .broken(let reason):
                log.error(
                    "a file of keys is broken; the keys read before stay",
                    [.path: .text(files[index].path), .reason: .text(reason.code.rawValue), .error: .text("\(reason)")]
                )
            }
        }
        let broken = Set(files.filter(\.isBroken).map(\.kind))
        let wall = Instant(microseconds: time.wallMicroseconds())
        known.withLock { status in
            for kind in Set(files.map(\.kind)).subtracting(broken) { status.lastSuccess[kind] = wall }
            for kind in broken { status.failures[kind, default: 0] += 1 }
        }
        return hasChanged
    }

    private func refresh(_ url: String, _ sources: inout Sources, _ now: Int64) {
        ring.forgetUnknownKey()
        sources.schedule.begin(now)
        do throws(KeyFailure) {
            let fetched = try fetch(url)
            sources.schedule.succeed(time.monotonicNanoseconds())
            let wall = Instant(microseconds: time.wallMicroseconds())
            known.withLock { $0.lastSuccess[.jwksURL] = wall }
            guard fetched != sources.fetched else { return }
            sources.fetched = fetched
            log.info("keys were fetched anew", [.count: .integer(fetched.keys.count)])
            publish(sources.joined)
        } catch {
            sources.schedule.fail(time.monotonicNanoseconds())
            guard !stop.isRaised else { return }
            known.withLock { $0.failures[.jwksURL, default: 0] += 1 }
            log.warning(
                "the JWKS could not be fetched; the keys fetched before stay",
                [.reason: .text(error.code.rawValue), .error: .text("\(error)")]
            )
        }
    }

    private func fetch(_ url: String) throws(KeyFailure) -> KeySet {
        let document: [UInt8]
        do throws(KeyFetchFailure) {
            document = try fetcher.fetch(url) { [stop] in stop.isRaised }
        } catch {
            throw KeyFailure(.cannotFetch, detail: error.description)
        }
        return try KeySet(jwks: document)
    }

    private func publish(_ keys: KeySet) {
        ring.replace(keys)
        let becameUsable = known.withLock { status in
            let wasUsable = status.isUsable
            for algorithm in TokenAlgorithm.allCases { status.counts[algorithm] = keys.count(of: algorithm) }
            return !wasUsable && status.isUsable
        }
        if becameUsable { onUsable() }
    }
}
