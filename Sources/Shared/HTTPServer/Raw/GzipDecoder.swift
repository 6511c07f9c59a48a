import CZlib
import Glibc

/// Owns a zlib stream and its output, both reused for every body.
final class GzipDecoder {
    enum Outcome {
        /// Valid until the next call; padded as a request's body is.
        case body(UnsafeRawBufferPointer)
        case corrupt
        case tooLarge
    }

    private static let padding = 64
    private static let usualCapacity = 256 * 1_024

    private let limit: Int
    private let stream: UnsafeMutablePointer<z_stream>
    private var isReady = false
    private var output: UnsafeMutableRawPointer
    private var capacity = 64 * 1_024

    init(limit: Int) {
        self.limit = limit
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        output = .allocate(byteCount: capacity + Self.padding, alignment: 16)
    }

    deinit {
        if isReady { inflateEnd(stream) }
        stream.deallocate()
        output.deallocate()
    }

    /// Decompresses one or more gzip members that fill the input exactly. Stops as soon as the limit is passed.
    func decode(_ input: UnsafeRawBufferPointer) -> Outcome {
        guard input.count > 0, let start = input.baseAddress, prepare() else { return .corrupt }
        shrink()
        stream.pointee.next_in = UnsafeMutablePointer(mutating: start.assumingMemoryBound(to: UInt8.self))
        stream.pointee.avail_in = UInt32(clamping: input.count)
        var length = 0
        while true {
            if length == capacity, !grow(keeping: length) { return .tooLarge }
            stream.pointee.next_out = (output + length).assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_out = UInt32(clamping: capacity - length)
            let status = inflate(stream, Z_NO_FLUSH)
            length = capacity - Int(stream.pointee.avail_out)
            if length > limit { return .tooLarge }
            switch status {
            case Z_OK:
                // Input used up with room left in the output: the end is missing.
                if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0 { return .corrupt }
            case Z_STREAM_END:
                if stream.pointee.avail_in == 0 { return .body(UnsafeRawBufferPointer(start: output, count: length)) }
                guard inflateReset(stream) == Z_OK else { return .corrupt }
            default:
                return .corrupt
            }
        }
    }

    private func prepare() -> Bool {
        if isReady { return inflateReset(stream) == Z_OK }
        // 15 bits of window, and 16 for "gzip only".
        let status = inflateInit2_(stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        isReady = status == Z_OK
        return isReady
    }

    /// One byte more than the limit at most: that byte tells a body at the limit from one beyond.
    private func grow(keeping length: Int) -> Bool {
        let next = min(capacity * 2, limit + 1)
        guard next > capacity else { return false }
        replaceOutput(capacity: next, keeping: length)
        return true
    }

    private func shrink() {
        if capacity > Self.usualCapacity { replaceOutput(capacity: Self.usualCapacity, keeping: 0) }
    }

    private func replaceOutput(capacity newCapacity: Int, keeping length: Int) {
        let replacement = UnsafeMutableRawPointer.allocate(byteCount: newCapacity + Self.padding, alignment: 16)
        replacement.copyMemory(from: output, byteCount: length)
        output.deallocate()
        output = replacement
        capacity = newCapacity
    }
}
