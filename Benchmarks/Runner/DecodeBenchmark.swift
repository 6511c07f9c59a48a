import CBareWalk
import Domain
import Glibc
import IngestService
import JSON
import MessageContract
import ServiceRuntime
import TimeZones

/// Decoding a body with all checks, beside a walk over the same document that checks nothing.
struct DecodeBenchmark {
    /// Microseconds a body, the best of several turns each.
    let decode: Double
    let walk: Double
    /// Making the record of what was decoded.
    let encode: Double

    var ratio: Double { decode / walk }

    var summary: String {
        "Decode of a 15-day body: \(format(decode, 2)) us; bare walk: \(format(walk, 2)) us; ratio \(format(ratio, 2)). "
            + "Its record: \(format(encode, 2)) us."
    }

    init(days: Int) throws {
        let now = Requests.now
        var random = SplitMix64(seed: 1)
        // Several bodies, so that no branch predictor learns one by heart.
        let bodies = (0..<64).map { _ in
            PaddedBytes(Array(Requests.body(days: days, now: now, &random).utf8))
        }
        let decoder = try DaysRequestDecoder(zones: ZoneTable())
        guard let walker = bare_walk_create() else { throw BenchmarkFailure("no memory") }
        defer { bare_walk_free(walker) }
        let context = DaysContext(receivedAt: now)
        var checksum: UInt64 = 0
        var decode = Double.infinity
        var walk = Double.infinity
        var both = Double.infinity
        let writer = DaysRecordWriter()
        for _ in 0..<40 {
            decode = min(
                decode,
                try Self.time(bodies) { body in
                    let request = try decoder.decode(padded: body, context)
                    guard request.days.count == days, request.errors.isEmpty, request.skipped.isEmpty else {
                        throw BenchmarkFailure("a body of this benchmark was not accepted: correct Requests.body")
                    }
                }
            )
            both = min(
                both,
                try Self.time(bodies) { body in
                    let plan = try LanePlan(
                        decoder.decode(padded: body, context),
                        writer,
                        taking: decoder.recordText
                    )
                    checksum &+= UInt64(plan.records.count)
                }
            )
            walk = min(
                walk,
                try Self.time(bodies) { body in
                    let start = body.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    let sum = bare_walk_document(walker, start, body.count)
                    guard sum != 0 else { throw BenchmarkFailure("simdjson can't parse a body of this benchmark") }
                    checksum &+= sum
                }
            )
        }
        guard checksum != 0 else { throw BenchmarkFailure("nothing was walked") }
        self.decode = decode
        self.walk = walk
        encode = both - decode
    }

    /// Microseconds for each body.
    private static func time(_ bodies: [PaddedBytes], _ body: (UnsafeRawBufferPointer) throws -> Void) rethrows
        -> Double
    {
        let rounds = 20
        let start = nanoseconds()
        for _ in 0..<rounds {
            for bytes in bodies { try body(bytes.content) }
        }
        return Double(nanoseconds() - start) / 1000 / Double(rounds * bodies.count)
    }

    private static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

private final class PaddedBytes {
    private let memory: UnsafeMutableRawBufferPointer
    private let count: Int

    var content: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

    init(_ bytes: [UInt8]) {
        count = bytes.count
        memory = .allocate(byteCount: count + JSONParser.padding, alignment: 64)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        memory.copyBytes(from: bytes)
    }

    deinit { memory.deallocate() }
}
