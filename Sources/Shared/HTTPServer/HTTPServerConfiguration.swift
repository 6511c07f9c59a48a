/// Limits and time-outs of one event loop; the defaults are those of the public door.
public struct HTTPServerConfiguration: Sendable {
    /// A connection beyond this many is answered 503 and closed.
    public var maximumConnections = 10_000
    /// Request line and headers together, in bytes.
    public var maximumHeadBytes = 16_384
    public var maximumHeaders = 64
    /// The request target alone, in bytes.
    public var maximumTargetBytes = 4_096
    /// The body as it travels, the framing of chunks included.
    public var maximumBodyBytes = 1 << 20
    /// The memory for requests that are arriving and for what clients have not read of their answers, over all
    /// connections: beyond it, a request that needs more than one block of 16 KiB is answered 503, and an answer whose
    /// rest is as large is cut off.
    public var maximumBufferedBytes = 512 << 20
    /// The body after gzip.
    public var maximumDecompressedBytes = 8 << 20
    /// From a request's first byte to its last. Also how long a new connection may stay silent.
    public var requestTimeout: Duration = .seconds(10)
    /// How long a connection may rest between two requests.
    public var idleTimeout: Duration = .seconds(60)
    /// How long a handler may take that answered `.later` without a limit of its own.
    public var answerTimeout: Duration = .seconds(30)
    /// How long a client may take to read an answer.
    public var writeTimeout: Duration = .seconds(30)
    /// How long bytes of a refused client are still read, so that it sees the answer instead of a reset.
    public var lingerTimeout: Duration = .seconds(2)
    /// Lets several loops listen on one port; the kernel spreads the connections.
    public var sharesPort = false
    public var listenBacklog: Int32 = 1_024

    public init() {}
}

/// The configuration in the units that the loop works with, clamped to what it can carry.
struct Limits {
    let connections: Int
    let headBytes: Int
    let headers: Int
    let targetBytes: Int
    let bodyBytes: Int
    let bufferedBytes: Int
    let decompressedBytes: Int
    let requestTimeout: UInt64
    let idleTimeout: UInt64
    let answerTimeout: UInt64
    let writeTimeout: UInt64
    let lingerTimeout: UInt64
    /// How often deadlines are looked at; what a time-out may be late by.
    let sweepInterval: UInt64

    init(_ configuration: HTTPServerConfiguration) {
        connections = min(max(configuration.maximumConnections, 1), 1 << 20)
        headBytes = min(max(configuration.maximumHeadBytes, 256), 1 << 20)
        headers = min(max(configuration.maximumHeaders, 1), 1_024)
        targetBytes = min(max(configuration.maximumTargetBytes, 16), headBytes)
        bodyBytes = min(max(configuration.maximumBodyBytes, 0), 1 << 28)
        bufferedBytes = max(configuration.maximumBufferedBytes, 0)
        decompressedBytes = min(max(configuration.maximumDecompressedBytes, 0), 1 << 28)
        requestTimeout = configuration.requestTimeout.clampedNanoseconds
        idleTimeout = configuration.idleTimeout.clampedNanoseconds
        answerTimeout = configuration.answerTimeout.clampedNanoseconds
        writeTimeout = configuration.writeTimeout.clampedNanoseconds
        lingerTimeout = configuration.lingerTimeout.clampedNanoseconds
        let shortest = min(requestTimeout, idleTimeout, answerTimeout, writeTimeout, lingerTimeout)
        sweepInterval = min(max(shortest / 8, 5_000_000), 100_000_000)
    }
}

extension Duration {
    /// Between a millisecond and a day: what a loop can wait for.
    var clampedNanoseconds: UInt64 {
        let parts = components
        let seconds = UInt64(clamping: min(max(parts.seconds, 0), 86_400))
        let rest = UInt64(clamping: max(parts.attoseconds, 0)) / 1_000_000_000
        return max(seconds * 1_000_000_000 + rest, 1_000_000)
    }
}
