public import Domain

/// Offsets from UTC of the zones of the IANA database, read from the system's compiled files (package tzdata).
///
/// One table belongs to one thread. A zone is read once; then a lookup is a hash and a comparison.
public final class ZoneTable {
    /// Where Debian keeps the compiled zones; `TZDIR` in the environment overrides it.
    public static let defaultDirectory = "/usr/share/zoneinfo"
    /// The longest name that is looked up.
    public static let longestName = 64

    private static let slotCount = 1024
    private static let mostZones = 700

    private let directory: String
    /// Open addressing; -1 is empty.
    private var slots: [Int32]
    private var zones: [KnownZone] = []

    public init(directory: String? = nil) {
        self.directory = directory ?? environmentValue("TZDIR") ?? Self.defaultDirectory
        slots = Array(repeating: -1, count: Self.slotCount)
    }

    /// The zone of that name; nil for a name that is not a zone of the database.
    public func zone(_ name: Span<UInt8>) -> KnownZone? {
        guard name.count > 0, name.count <= Self.longestName else { return nil }
        var slot = Self.hash(name) & (Self.slotCount - 1)
        while slots[slot] >= 0 {
            let zone = zones[Int(slots[slot])]
            if zone.isNamed(name) { return zone }
            slot = (slot + 1) & (Self.slotCount - 1)
        }
        return load(name, into: slot)
    }

    public func zone(_ name: String) -> KnownZone? {
        var name = name
        return name.withUTF8 { zone($0.span) }
    }

    /// Seconds east of UTC in that zone at that moment; nil for a name that is not a zone of the database.
    public func offset(_ name: Span<UInt8>, at instant: Instant) -> Int? {
        zone(name)?.offset(at: instant)
    }

    public func offset(_ name: String, at instant: Instant) -> Int? {
        zone(name)?.offset(at: instant)
    }

    private func load(_ name: Span<UInt8>, into slot: Int) -> KnownZone? {
        guard Self.isPlausible(name) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(name.count)
        for index in 0..<name.count { bytes.append(name[index]) }
        let path = directory + "/" + String(decoding: bytes, as: UTF8.self)
        guard let file = readFile(path, limit: 256 << 10), let zone = Zone(compiled: file) else { return nil }
        let cached = KnownZone(bytes, zone)
        // The database has some 600 names; more would be somebody's own files.
        if zones.count >= Self.mostZones {
            zones.removeAll()
            slots = Array(repeating: -1, count: Self.slotCount)
            slots[Self.hash(name) & (Self.slotCount - 1)] = 0
        } else {
            slots[slot] = Int32(zones.count)
        }
        zones.append(cached)
        return cached
    }

    /// Only what IANA names are made of, so that a name can't leave the folder; none of the folder's other files.
    private static func isPlausible(_ name: Span<UInt8>) -> Bool {
        var previous = UInt8(ascii: "/")
        for index in 0..<name.count {
            let byte = name[index]
            switch byte {
            case UInt8(ascii: "/"): if previous == byte { return false }
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: "-"):
                break
            default: return false
            }
            previous = byte
        }
        guard previous != UInt8(ascii: "/") else { return false }
        // IANA's names begin with a capital; `posix/`, `right/` (which counts leap seconds) and `localtime` do not.
        return (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(name[0])
    }

    /// Of the name's length, its first and its last eight bytes, and those in between four by four: names are hardly
    /// longer.
    @inline(__always)
    private static func hash(_ name: Span<UInt8>) -> Int {
        let bytes = name.bytes
        let factor: UInt64 = 0x9e37_79b9_7f4a_7c15
        var hash = UInt64(name.count)
        func mix(_ word: UInt64) { hash = (hash ^ word ^ hash >> 29) &* factor }
        if name.count >= 8 {
            for offset in stride(from: 0, to: name.count - 8, by: 4) {
                mix(bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
            }
            mix(bytes.unsafeLoadUnaligned(fromByteOffset: name.count - 8, as: UInt64.self))
        } else {
            for index in 0..<name.count { mix(UInt64(name[index])) }
        }
        return Int(truncatingIfNeeded: hash >> 40)
    }
}

/// A zone of the table, which belongs to the table's thread. It keeps the stretch of constant offset that was asked for
/// last: nearly every question falls into it.
public final class KnownZone {
    public let name: String
    private let bytes: [UInt8]
    private let zone: Zone
    private var stretch: Zone.Stretch

    init(_ name: [UInt8], _ zone: Zone) {
        bytes = name
        self.name = String(decoding: name, as: UTF8.self)
        self.zone = zone
        stretch = zone.stretch(at: 0)
    }

    func isNamed(_ other: Span<UInt8>) -> Bool {
        guard bytes.count == other.count else { return false }
        var difference: UInt8 = 0
        for index in 0..<bytes.count { difference |= bytes[index] ^ other[index] }
        return difference == 0
    }

    /// Seconds east of UTC at that moment.
    public func offset(at instant: Instant) -> Int {
        let seconds = instant.microseconds / 1_000_000
        if seconds < stretch.from || seconds >= stretch.until { stretch = zone.stretch(at: seconds) }
        return stretch.offset
    }
}
