import Glibc

/// One client. The object stays with its slot when the client leaves, and serves the next one.
final class Connection {
    let slot: Int
    let parser: RequestParser
    var fd: Int32 = -1
    var machine = ConnectionStateMachine()
    var input = InputBuffer()
    var backlog = Backlog()
    /// Counts requests, over all clients of this slot, so that a late answer can't reach the wrong one.
    var serial: UInt32 = 0
    /// Nothing was asked on it so far.
    var isNew = true
    /// The kernel may have bytes for us.
    var isReadable = false
    /// The client has closed its sending side.
    var peerIsDone = false
    var isInHandler = false
    /// The connection stands in the loop's list of those to go on with.
    var isQueued = false
    /// The time limit for the arriving request is running.
    var isArriving = false
    var sentContinue = false
    var arrivedAt: UInt64 = 0
    var discarded = 0

    init?(slot: Int, limits: Limits) {
        guard let parser = RequestParser(limits: limits) else { return nil }
        self.slot = slot
        self.parser = parser
    }

    var state: ConnectionStateMachine.State { machine.state }
    var exchange: HTTPExchangeID { HTTPExchangeID(slot: slot, serial: serial) }

    func open(_ descriptor: Int32) {
        fd = descriptor
        machine.open()
        isReadable = false
        peerIsDone = false
        isNew = true
        beginMessage()
    }

    func beginMessage() {
        parser.reset()
        isArriving = false
        sentContinue = false
    }

    /// Whether something of a request is there: line ends between two of them are nothing.
    func hasMessageBytes() -> Bool {
        if input.parsedOffset == 0 { input.skipLineEnds() }
        return input.messageBytes > 0
    }

    /// Takes in what has been read; nil if there was nothing new.
    func parse() -> ParseOutcome? {
        if input.parsedOffset == 0 { input.skipLineEnds() }
        guard input.unparsedBytes > 0, let message = input.message else { return nil }
        let outcome = parser.parse(message, from: input.parsedOffset, to: input.messageBytes)
        switch outcome {
        case .incomplete:
            let head = parser.head
            let isInChunks = head.pointee.isComplete && head.pointee.isChunked
            let bodyLength = head.pointee.bodyLength
            let bodyEnd = bodyLength > 0 ? head.pointee.bodyStart + bodyLength : head.pointee.length
            input.didParseAll(compactTo: isInChunks ? bodyEnd : nil)
        case .complete(let end):
            input.didParse(upTo: end)
        case .refused:
            break
        }
        return outcome
    }

    /// How many bytes to make room for before the next read, whatever length was announced: memory is lent for bytes that
    /// came, not for promises.
    var wantedRoom: Int {
        let head = parser.head
        guard head.pointee.isComplete, !head.pointee.isChunked else { return 4_096 }
        return max(min(head.pointee.contentLength - head.pointee.bodyLength, 4_096), 1)
    }
}

/// What the socket did not take yet of an answer.
struct Backlog {
    private var bytes: UnsafeMutableRawPointer?
    private var position = 0
    private var end = 0

    var isEmpty: Bool { bytes == nil }
    var rest: UnsafeRawBufferPointer {
        guard let bytes else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(start: bytes + position, count: end - position)
    }

    /// False: no memory, or too much of it is lent already.
    mutating func set(_ rest: UnsafeRawBufferPointer, from pool: BlockPool) -> Bool {
        clear(to: pool)
        let size = max(rest.count, BlockPool.blockSize)
        guard let source = rest.baseAddress, let copy = pool.take(size) else { return false }
        memcpy(copy, source, rest.count)
        bytes = copy
        end = rest.count
        return true
    }

    mutating func didSend(_ count: Int, to pool: BlockPool) {
        position += count
        if position >= end { clear(to: pool) }
    }

    mutating func clear(to pool: BlockPool) {
        if let bytes { pool.give(bytes, size: max(end, BlockPool.blockSize)) }
        self = Backlog()
    }
}
