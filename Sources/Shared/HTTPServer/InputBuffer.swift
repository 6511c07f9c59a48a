import Glibc

/// Raw blocks that connections borrow while they hold bytes of a request; idle and waiting connections hold none.
final class BlockPool {
    /// Head and body of a usual request fit.
    static let blockSize = 16 * 1_024
    /// Readable bytes behind every body, which SIMD parsers ask for.
    static let padding = 64
    private static let kept = 256

    private let limit: Int
    /// Bytes lent to connections.
    private var lent = 0
    private var blocks: [UnsafeMutableRawPointer] = []

    init(limit: Int) {
        self.limit = limit
    }

    deinit {
        for block in blocks { free(block) }
    }

    /// A block of at least one `blockSize`; nil if there is no memory, or for a larger one if too much is lent already.
    func take(_ size: Int) -> UnsafeMutableRawPointer? {
        let isUsual = size <= Self.blockSize
        guard isUsual || lent + size <= limit else { return nil }
        let recycled = isUsual ? blocks.popLast() : nil
        guard let block = recycled ?? calloc(1, max(size, Self.blockSize)) else { return nil }
        lent += max(size, Self.blockSize)
        return block
    }

    func give(_ block: UnsafeMutableRawPointer, size: Int) {
        lent -= size
        guard size == Self.blockSize, blocks.count < Self.kept else {
            free(block)
            return
        }
        blocks.append(block)
    }
}

/// The bytes of the message that is arriving, and whatever the client sent behind it.
struct InputBuffer {
    private(set) var block: UnsafeMutableRawPointer?
    private var size = 0
    /// The message's first byte; offsets of the parser count from here.
    private(set) var start = 0
    /// Up to here the parser has taken the bytes in.
    private(set) var parsed = 0
    private(set) var filled = 0

    var message: UnsafeMutableRawPointer? { block.map { $0 + start } }
    var messageBytes: Int { filled - start }
    var unparsedBytes: Int { filled - parsed }
    var parsedOffset: Int { parsed - start }
    /// Where to read to, and how much fits.
    var free: UnsafeMutableRawBufferPointer {
        guard let block else { return UnsafeMutableRawBufferPointer(start: nil, count: 0) }
        return UnsafeMutableRawBufferPointer(start: block + filled, count: size - BlockPool.padding - filled)
    }

    /// Makes room for `count` more bytes. False: no memory.
    mutating func reserve(_ count: Int, from pool: BlockPool) -> Bool {
        guard let old = block else {
            size = max(count + BlockPool.padding, BlockPool.blockSize)
            block = pool.take(size)
            return block != nil
        }
        if size - BlockPool.padding - filled >= count { return true }
        let needed = messageBytes + count + BlockPool.padding
        if needed <= size {
            memmove(old, old + start, messageBytes)
        } else {
            // Doubled each time, so that a large body is moved only a few times.
            let newSize = max(needed, size * 2)
            guard let new = pool.take(newSize) else { return false }
            memcpy(new, old + start, messageBytes)
            pool.give(old, size: size)
            block = new
            size = newSize
        }
        parsed -= start
        filled -= start
        start = 0
        return true
    }

    mutating func didRead(_ count: Int) {
        filled += count
    }

    /// Line ends between two requests carry nothing.
    mutating func skipLineEnds() {
        guard let block, start == parsed else { return }
        while start < filled {
            let byte = block.load(fromByteOffset: start, as: UInt8.self)
            guard byte == 10 || byte == 13 else { break }
            start += 1
        }
        parsed = start
    }

    /// The parser took in everything; a chunked body ends at `end`, and what stood behind it was framing.
    mutating func didParseAll(compactTo end: Int?) {
        if let end { filled = start + end }
        parsed = filled
    }

    /// The message ends at this offset; it stays until `drop`.
    mutating func didParse(upTo end: Int) {
        parsed = start + end
    }

    /// Lets go of the message that was parsed, and of the block if nothing stands behind it.
    mutating func drop(to pool: BlockPool) {
        start = parsed
        if start == filled { release(to: pool) }
    }

    mutating func release(to pool: BlockPool) {
        if let block { pool.give(block, size: size) }
        self = InputBuffer()
    }
}
