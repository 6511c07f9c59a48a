import Domain

/// When provider tokens are renewed: at about 45 minutes, never under 20 nor over 60.
enum ProviderTokenRule {
    enum Decision: Hashable, Sendable {
        case use
        /// Usable, and to be renewed now.
        case useAndRenew
        /// There is none, or none that may be used.
        case renew
        /// It was issued in what is the future here: a clock is wrong.
        case clock
    }

    static let renewalSeconds = 45 * 60
    static let leastSeconds = 20 * 60
    /// A minute below Apple's hour: the last push with it is still on its way.
    static let mostSeconds = 59 * 60
    static let pauseSeconds = 20 * 60
    private static let skewSeconds = 5 * 60

    static func decide(issuedAt: Instant?, now: Instant) -> Decision {
        guard let issuedAt else { return .renew }
        if issuedAt > now.advanced(bySeconds: skewSeconds) { return .clock }
        if now >= issuedAt.advanced(bySeconds: mostSeconds) { return .renew }
        return now >= issuedAt.advanced(bySeconds: renewalSeconds) ? .useAndRenew : .use
    }

    /// The server says that it has expired: renewed if it is old enough; else a clock is wrong.
    static func afterExpired(issuedAt: Instant, now: Instant) -> Decision {
        now >= issuedAt.advanced(bySeconds: leastSeconds) ? .renew : .clock
    }
}
