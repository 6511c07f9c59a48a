@testable import HTTPServer

/// A gzip body, with a limit as small as its inputs make it worth while.
final class GzipTarget: FuzzTarget {
    private static let limit = 1 << 17
    private let decoder = GzipDecoder(limit: limit)
    /// Keeps reads from being optimised away.
    private(set) var sum: UInt8 = 0

    func run(_ input: UnsafeRawBufferPointer) throws {
        switch decoder.decode(input) {
        case .body(let plain):
            try check(plain.count <= Self.limit, "the limit was passed")
            // Every byte and the padding may be read.
            for index in 0..<(plain.count + 64) {
                sum &+= plain.baseAddress?.load(fromByteOffset: index, as: UInt8.self) ?? 0
            }
        case .corrupt, .tooLarge: break
        }
    }
}
