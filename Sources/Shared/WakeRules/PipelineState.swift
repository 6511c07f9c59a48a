public import Domain

/// Whether the way from the phones to the tables works: no wake and no strike while we are the cause.
public struct PipelineState: Hashable, Sendable {
    /// A number of partitions that the live topic has or had.
    public struct PartitionCount: Hashable, Sendable {
        public let count: Int
        /// When it was first seen, in microseconds since 1970.
        public let since: Int64

        public init(count: Int, since: Int64) {
            self.count = count
            self.since = since
        }
    }

    /// By partition of the live topic, in microseconds since 1970; a partition that nobody reads is missing.
    public var appliedThrough: [Int32: Int64]
    /// The counts that records which may still be in the log were written by; never empty.
    public var counts: [Int]
    public var door: DoorCounts
    /// When the door was last found shut, or nothing at all got in.
    public var doorShutAt: Instant?
    /// Since when it has been found so, with openings that are shorter than the spacing; nil for `doorShutAt` alone.
    public var doorShutSince: Instant?
    /// Set by an operator.
    public var pausedAt: Instant?
    /// The database's clock and this machine's disagree by so much, in milliseconds.
    public var clockSkewMilliseconds: Int = 0
    /// The database's clock has not jumped for a while.
    public var isClockSteady = true
    /// How the database's clock last jumped forward.
    public var clockJump: ClockJump?
    /// Where nothing may be sent.
    public var stops: [WakeStop]

    public init(
        appliedThrough: [Int32: Int64],
        counts: [Int],
        door: DoorCounts,
        doorShutAt: Instant? = nil,
        pausedAt: Instant? = nil,
        stops: [WakeStop] = []
    ) {
        self.appliedThrough = appliedThrough
        self.counts = counts
        self.door = door
        self.doorShutAt = doorShutAt
        self.pausedAt = pausedAt
        self.stops = stops
    }

    public static let longestSkewMilliseconds: UInt = 60_000

    public var isClockGood: Bool { isClockSteady && clockSkewMilliseconds.magnitude <= Self.longestSkewMilliseconds }

    /// What is wrong on our side for every user alike: then nobody need be looked at, and every row stays as it is.
    public var heldBackForAll: WakeCondition.Name? {
        if door.isShut { return .door }
        return pausedAt == nil ? nil : .running
    }

    /// How far all partitions that can hold the user's records are applied; nil where one of them is not read at all.
    public func appliedThrough(bucket: Int) -> Instant? {
        var oldest = Int64.max
        for count in counts {
            guard let applied = appliedThrough[Int32(truncatingIfNeeded: bucket % max(1, count))], applied > 0 else {
                return nil
            }
            oldest = min(oldest, applied)
        }
        return oldest == .max ? nil : Instant(microseconds: oldest)
    }

    /// Notes that no answer got in between the two. Openings that are shorter than the spacing are passed over: no wake
    /// has all of its time to be answered in one.
    public mutating func noteDoorShut(since: Instant, at now: Instant) {
        guard let last = doorShutAt, last.advanced(bySeconds: WakeRule.spacingSeconds) >= since else {
            doorShutSince = since
            doorShutAt = now
            return
        }
        doorShutSince = min(doorShutSince ?? last, since)
        doorShutAt = max(last, now)
    }

    /// The newest time up to which anything is applied; nil where nothing is.
    public var newestApplied: Instant? {
        appliedThrough.values.max().flatMap { $0 > 0 ? Instant(microseconds: $0) : nil }
    }

    /// Whether no user at all is up to date: then there is nothing to be learnt from looking at any.
    public func isBehindEverywhere(at now: Instant, _ policy: WakePolicy) -> Bool {
        let newest = Instant(microseconds: appliedThrough.values.max() ?? 0)
        return newest.advanced(bySeconds: policy.lagSeconds) < now
    }

    /// The counts to look at: the present one, and each earlier one while records that were written by it may still
    /// be in the log.
    ///
    /// - Parameters:
    ///   - history: every count that was seen, in any order.
    ///   - partitions: the partitions that are read now.
    ///   - now: the present.
    ///   - retentionSeconds: how long the log keeps records.
    /// - Returns: the present count first.
    public static func counts(
        history: [PartitionCount],
        partitions: some Sequence<Int32>,
        now: Instant,
        retentionSeconds: Int
    ) -> [Int] {
        let present = presentCount(partitions)
        let sorted = history.sorted { $0.since < $1.since }
        var counts = [present]
        for (index, old) in sorted.enumerated() where old.count != present {
            // Written by it until the next one was seen; the last one seen is about to be replaced by the present.
            let until = index + 1 < sorted.count ? Instant(microseconds: sorted[index + 1].since) : now
            if until.advanced(bySeconds: retentionSeconds) >= now, !counts.contains(old.count) {
                counts.append(old.count)
            }
        }
        return counts
    }

    /// Counts are powers of two; a partition that nobody reads yet is missing in the middle or at the end.
    public static func presentCount(_ partitions: some Sequence<Int32>) -> Int {
        let highest = Int(partitions.max() ?? 0)
        var count = 1
        while count <= highest, count < 4096 { count *= 2 }
        return count
    }
}

/// What the door answered lately: write requests, and how many of them 2xx.
public struct DoorCounts: Hashable, Sendable {
    public var requests: Int
    public var answered: Int

    public init(requests: Int = 0, answered: Int = 0) {
        self.requests = requests
        self.answered = answered
    }

    /// The counts are of so many seconds.
    public static let windowSeconds = 600
    /// Fewer requests say nothing.
    public static let fewest = 20

    /// Refuses more than half, or answers nobody.
    public var isShut: Bool { requests >= Self.fewest && answered < requests.subtractingSaturating(answered) }
}

/// A place where nothing is sent at present.
public struct WakeStop: Hashable, Sendable {
    /// As `WakeToken.lane`.
    public let lane: String
    /// Nil: the whole lane.
    public let topic: String?
    /// One of a fixed set of words.
    public let code: String
    /// Nil: until somebody resumes it.
    public let until: Instant?

    /// The code of a lane that the worker has no credential for.
    public static let notConfigured = "not_configured"

    public init(lane: String, topic: String?, code: String, until: Instant?) {
        self.lane = lane
        self.topic = topic
        self.code = code
        self.until = until
    }

    func covers(_ token: WakeToken, at now: Instant) -> Bool {
        lane == token.lane && (topic ?? token.registration.appID) == token.registration.appID
            && until.map { $0 > now } ?? true
    }
}

extension WakeToken {
    /// Who serves the token: each lane has a server and stops of its own.
    public var lane: String {
        switch (registration.platform, registration.environment) {
        case (.android, _): "fcm"
        case (.ios, .sandbox): "apns_sandbox"
        case (.ios, .production): "apns_production"
        }
    }
}
