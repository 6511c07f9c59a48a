import Domain

/// The text of times of arrival: of one second after the other, only the digits behind the point change. One loop's own.
struct ReceivedAtText {
    private var second = Int64.min
    private var text = InlineArray<27, UInt8>(repeating: 0)

    /// The same as the instant's `ascii`.
    mutating func text(of instant: Instant) -> InlineArray<27, UInt8> {
        let microseconds = instant.microseconds
        guard microseconds >= 0, microseconds / 1_000_000 == second else {
            second = microseconds >= 0 ? microseconds / 1_000_000 : .min
            text = instant.ascii
            return text
        }
        var rest = microseconds % 1_000_000
        var place = 25
        while place >= 20 {
            text[place] = 48 + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
            place -= 1
        }
        return text
    }
}
