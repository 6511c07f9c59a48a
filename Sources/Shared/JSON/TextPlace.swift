/// A place in memory where text is put together piece by piece: for `JSONWriter.value`, whose room must be enough for all
/// that is put there.
public struct TextPlace {
    @usableFromInline let start: UnsafeMutableRawPointer
    @usableFromInline var position: UnsafeMutableRawPointer

    @inlinable
    @inline(__always)
    public init(_ start: UnsafeMutableRawPointer) {
        self.start = start
        position = start
    }

    /// How many bytes were put.
    @inlinable
    @inline(__always)
    public var count: Int { position - start }

    /// A literal, as it is.
    @inlinable
    @inline(__always)
    public mutating func put(_ text: StaticString) {
        position.copyMemory(from: text.utf8Start, byteCount: text.utf8CodeUnitCount)
        position += text.utf8CodeUnitCount
    }

    /// ASCII, as it is.
    @inlinable
    @inline(__always)
    public mutating func put<let length: Int>(ascii text: InlineArray<length, UInt8>) {
        text.span.withUnsafeBytes { bytes in
            if let source = bytes.baseAddress { position.copyMemory(from: source, byteCount: length) }
        }
        position += length
    }

    /// Bytes, as they are.
    @inlinable
    @inline(__always)
    public mutating func put(_ bytes: Slice<UnsafeRawBufferPointer>) {
        let bytes = UnsafeRawBufferPointer(rebasing: bytes)
        guard let source = bytes.baseAddress else { return }
        position.copyMemory(from: source, byteCount: bytes.count)
        position += bytes.count
    }

    /// The bytes of a number that fits a word, the lowest first.
    @inlinable
    @inline(__always)
    public mutating func put<Word: FixedWidthInteger & BitwiseCopyable>(_ word: Word) {
        position.storeBytes(of: word.littleEndian, as: Word.self)
        position += MemoryLayout<Word>.size
    }

    /// Two digits of a number below a hundred.
    @inlinable
    @inline(__always)
    public mutating func put(twoDigits number: UInt32) {
        let tens = (number &* 205) &>> 11
        put(UInt16(truncatingIfNeeded: 0x3030 &+ tens &+ (number &- tens &* 10) &<< 8))
    }

    /// What `write` puts at the place that it is given, and whose length it gives.
    @inlinable
    @inline(__always)
    public mutating func put(writing write: (UnsafeMutableRawPointer) -> Int) {
        position += write(position)
    }
}
