import Domain

/// The text of identifiers for who writes some into each request: stored by the word, where `ascii` stores each digit.
extension UUID128 {
    static let textLength = 36

    /// The lower-case text form; `place` has `textLength` bytes.
    @inline(__always)
    func write(to place: UnsafeMutableRawPointer) {
        let (first, second, third, fourth) = digits
        func half(_ word: UInt64, _ shift: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: word >> shift).littleEndian }
        place.storeBytes(of: first.littleEndian, as: UInt64.self)
        place.storeBytes(of: half(second, 0), toByteOffset: 9, as: UInt32.self)
        place.storeBytes(of: half(second, 32), toByteOffset: 14, as: UInt32.self)
        place.storeBytes(of: half(third, 0), toByteOffset: 19, as: UInt32.self)
        place.storeBytes(of: half(third, 32), toByteOffset: 24, as: UInt32.self)
        place.storeBytes(of: fourth.littleEndian, toByteOffset: 28, as: UInt64.self)
        let dash = UInt8(ascii: "-")
        place.storeBytes(of: dash, toByteOffset: 8, as: UInt8.self)
        place.storeBytes(of: dash, toByteOffset: 13, as: UInt8.self)
        place.storeBytes(of: dash, toByteOffset: 18, as: UInt8.self)
        place.storeBytes(of: dash, toByteOffset: 23, as: UInt8.self)
    }

    /// Lends the text form.
    @inline(__always)
    func withText<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        var text = InlineArray<36, UInt8>(repeating: 0)
        return try withUnsafeMutableBytes(of: &text) { bytes in
            if let start = bytes.baseAddress { write(to: start) }
            return try body(UnsafeRawBufferPointer(bytes))
        }
    }
}
