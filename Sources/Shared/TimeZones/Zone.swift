import Domain

/// A compiled zone (RFC 8536): when its offset changed, and to what.
struct Zone {
    /// A time without a change of offset, in seconds since 1970; `until` is not part of it.
    struct Stretch: Equatable {
        var from: Int64
        var until: Int64
        var offset: Int
    }

    /// Rules for the future are written out up to here; the files themselves end in 2037 or earlier.
    static let lastYear = 2105

    private var starts: [Int64] = []
    private var offsets: [Int32] = []
    private var firstOffset: Int32 = 0

    /// Nil for bytes that are not a compiled zone.
    init?(compiled bytes: [UInt8]) {
        var reader = Reader(bytes: bytes)
        guard let first = reader.header() else { return nil }
        if first.version >= UInt8(ascii: "2") {
            guard reader.skip(first.bodyLength(timeSize: 4)), let second = reader.header(),
                readBody(&reader, second, timeSize: 8)
            else { return nil }
            extend(by: reader.footer())
        } else {
            guard readBody(&reader, first, timeSize: 4) else { return nil }
        }
    }

    func stretch(at seconds: Int64) -> Stretch {
        var low = 0
        var high = starts.count
        while low < high {
            let middle = (low + high) / 2
            if starts[middle] <= seconds { low = middle + 1 } else { high = middle }
        }
        return Stretch(
            from: low == 0 ? .min : starts[low - 1],
            until: low == starts.count ? .max : starts[low],
            offset: Int(low == 0 ? firstOffset : offsets[low - 1])
        )
    }

    private mutating func readBody(_ reader: inout Reader, _ header: Header, timeSize: Int) -> Bool {
        guard header.types > 0, reader.remaining >= header.bodyLength(timeSize: timeSize) else { return false }
        var times: [Int64] = []
        for _ in 0..<header.times {
            guard let time = reader.integer(timeSize) else { return false }
            times.append(time)
        }
        var types: [Int] = []
        for _ in 0..<header.times {
            guard let type = reader.integer(1) else { return false }
            types.append(Int(type) & 0xff)
        }
        var typeOffsets: [Int32] = []
        for _ in 0..<header.types {
            guard let offset = reader.integer(4), reader.skip(2), abs(offset) < 100_000 else { return false }
            typeOffsets.append(Int32(truncatingIfNeeded: offset))
        }
        let rest = header.characters + header.leaps * (timeSize + 4) + header.standardFlags + header.utcFlags
        guard reader.skip(rest) else { return false }
        firstOffset = typeOffsets[0]
        for (time, type) in zip(times, types) {
            guard type < typeOffsets.count, time > starts.last ?? .min else { return false }
            starts.append(time)
            offsets.append(typeOffsets[type])
        }
        return true
    }

    /// Writes out what the footer says of the time after the last change.
    private mutating func extend(by footer: [UInt8]) {
        guard let rule = PosixRule(footer) else { return }
        let last = starts.last ?? .min
        guard let summer = rule.summer else {
            if starts.isEmpty { firstOffset = Int32(rule.standardOffset) }
            return
        }
        for year in 1970...Self.lastYear {
            var changes = [
                (summer.start.instant(year: year, offset: rule.standardOffset), summer.offset),
                (summer.end.instant(year: year, offset: summer.offset), rule.standardOffset),
            ]
            changes.sort { $0.0 < $1.0 }
            for (instant, offset) in changes where instant > last && instant > starts.last ?? .min {
                starts.append(instant)
                offsets.append(Int32(offset))
            }
        }
    }
}

private struct Header {
    var version: UInt8
    var utcFlags = 0
    var standardFlags = 0
    var leaps = 0
    var times = 0
    var types = 0
    var characters = 0

    func bodyLength(timeSize: Int) -> Int {
        times * (timeSize + 1) + types * 6 + characters + leaps * (timeSize + 4) + standardFlags + utcFlags
    }
}

private struct Reader {
    let bytes: [UInt8]
    var index = 0

    var remaining: Int { bytes.count - index }

    mutating func skip(_ count: Int) -> Bool {
        guard count >= 0, count <= remaining else { return false }
        index += count
        return true
    }

    /// A signed big-endian integer.
    mutating func integer(_ size: Int) -> Int64? {
        guard size <= remaining else { return nil }
        var value: UInt64 = 0
        for offset in 0..<size { value = value << 8 | UInt64(bytes[index + offset]) }
        index += size
        let shift = UInt64(64 - size * 8)
        return Int64(bitPattern: value << shift) >> Int64(shift)
    }

    mutating func header() -> Header? {
        guard remaining >= 44, bytes[index..<(index + 4)].elementsEqual("TZif".utf8) else { return nil }
        var header = Header(version: bytes[index + 4])
        index += 20
        for field in [
            \Header.utcFlags, \.standardFlags, \.leaps, \.times, \.types, \.characters,
        ] {
            guard let count = integer(4), (0...65_536).contains(count) else { return nil }
            header[keyPath: field] = Int(count)
        }
        return header
    }

    /// The text between the two line feeds at the end.
    mutating func footer() -> [UInt8] {
        guard remaining > 0, bytes[index] == 10 else { return [] }
        return Array(bytes[(index + 1)...].prefix { $0 != 10 })
    }
}
