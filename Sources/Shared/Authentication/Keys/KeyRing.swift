import Synchronization

/// The keys as they are now, for all threads. Verifiers look at its generation, which is one load, and take the keys
/// anew when it has changed.
public final class KeyRing: Sendable {
    private let keys: Mutex<KeySet>
    private let counter = Atomic<UInt64>(0)
    private let isWanted = Atomic<Bool>(false)
    private let onWanted = Mutex<(@Sendable () -> Void)?>(nil)

    public init(_ keys: KeySet) {
        self.keys = Mutex(keys)
    }

    /// Changes with the keys.
    var generation: UInt64 { counter.load(ordering: .acquiring) }

    /// The keys and their generation.
    func current() -> (keys: KeySet, generation: UInt64) {
        keys.withLock { ($0, counter.load(ordering: .relaxed)) }
    }

    /// From now on every verifier uses these, and forgets the tokens that it verified with others. False if they are
    /// the same.
    @discardableResult
    public func replace(_ new: KeySet) -> Bool {
        keys.withLock { keys in
            guard keys != new else { return false }
            keys = new
            counter.wrappingAdd(1, ordering: .releasing)
            return true
        }
    }

    /// A token named a key that is not here. Costs one atomic operation once that is known.
    func keyIsUnknown() {
        guard !isWanted.exchange(true, ordering: .acquiringAndReleasing) else { return }
        onWanted.withLock { $0 }?()
    }

    /// Calls `body` on a verifier's thread when a key is unknown, once until `forgetUnknownKey`.
    func whenKeyIsUnknown(_ body: @escaping @Sendable () -> Void) { onWanted.withLock { $0 = body } }

    var hasUnknownKey: Bool { isWanted.load(ordering: .acquiring) }

    func forgetUnknownKey() { isWanted.store(false, ordering: .releasing) }
}
