import Domain
import JSON

/// One reader of outside bytes, with what must hold for every input. Belongs to one thread.
protocol FuzzTarget {
    /// - Throws: `FuzzFinding` where something does not hold. A read outside, or a trap, ends the process.
    func run(_ input: UnsafeRawBufferPointer) throws
}

struct FuzzFinding: Error, CustomStringConvertible {
    let description: String
}

/// All targets; the names are those of `Scripts/fuzz`, and of the folders in `Tests/Fixtures/fuzz`.
enum FuzzTargetKind: String, CaseIterable, Sendable {
    case days, bodies, records, gzip, jwt, keys, path, requests

    func makeTarget() throws -> any FuzzTarget {
        switch self {
        case .days: try DaysTarget()
        case .bodies: try BodiesTarget()
        case .records: try RecordsTarget()
        case .gzip: GzipTarget()
        case .jwt: try TokenTarget()
        case .keys: KeysTarget()
        case .path: try PathTarget()
        case .requests: try RequestsTarget()
        }
    }
}

func check(_ holds: Bool, _ what: @autoclosure () -> String) throws(FuzzFinding) {
    guard holds else { throw FuzzFinding(description: what()) }
}

enum FuzzSamples {
    static let now = Instant(microseconds: 1_788_000_000_000_000)
    static let event = EventID(high: 0x0199_0000_0000_7abc, low: 0x8000_0000_0000_0123)
    static let user = UserID(high: 0x1234_0000_0000_4000, low: 0x8000_0000_0000_0001)
}

/// A copy that ends where the readable bytes end, so that a read behind them is found.
func withPadded(_ input: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: input.count + JSONParser.padding, alignment: 1)
    defer { copy.deallocate() }
    copy.copyBytes(from: input)
    // What stands behind a body is whatever was there before: not zeros.
    for index in input.count..<copy.count { copy[index] = UInt8(truncatingIfNeeded: 0x20 + index % 0x60) }
    try body(UnsafeRawBufferPointer(rebasing: copy[..<input.count]))
}

extension UnsafeRawBufferPointer {
    /// Takes what stands before the next line end, or all that is left; nil where nothing is.
    mutating func takeLine() -> UnsafeRawBufferPointer? {
        guard !isEmpty else { return nil }
        let end = firstIndex(of: 10) ?? count
        let line = UnsafeRawBufferPointer(rebasing: self[..<end])
        self = UnsafeRawBufferPointer(rebasing: self[Swift.min(end + 1, count)...])
        return line
    }
}
