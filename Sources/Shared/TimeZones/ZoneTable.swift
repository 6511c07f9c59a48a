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
    private var zones: [CachedZone] = []

    public init(directory: String? = nil) {
        self.directory = directory ?? environmentValue("TZDIR") ?? Self.defaultDirectory
        slots = Array(repeating: -1, count: Self.slotCount)
    }

    /// Seconds east of UTC in that zone at that moment; nil for a name that is not a zone of the database.
    public func offset(_ name: Span<UInt8>, at instant: Instant) -> Int? {
        guard name.count > 0, name.count <= Self.longestName else { return nil }
        let seconds = instant.microseconds / 1_000_000
        var slot = Self.hash(name) & (Self.slotCount - 1)
        while slots[slot] >= 0 {
            let index = Int(slots[slot])
            if zones[index].isNamed(name) { return zones[index].offset(at: seconds) }
            slot = (slot + 1) & (Self.slotCount - 1)
        }
        return load(name, into: slot)?.offset(at: seconds)
    }

    public func offset(_ name: String, at instant: Instant) -> Int? {
        var name = name
        return name.withUTF8 { offset($0.span, at: instant) }
    }

    private func load(_ name: Span<UInt8>, into slot: Int) -> CachedZone? {
        guard Self.isPlausible(name) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(name.count)
        for index in 0..<name.count { bytes.append(name[index]) }
        let path = directory + "/" + String(decoding: bytes, as: UTF8.self)
        guard let file = readFile(path, limit: 256 << 10), let zone = Zone(compiled: file) else { return nil }
        let cached = CachedZone(name: bytes, zone: zone)
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

    @inline(__always)
    private static func hash(_ name: Span<UInt8>) -> Int {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for index in 0..<name.count { hash = (hash ^ UInt64(name[index])) &* 0x100_0000_01b3 }
        return Int(truncatingIfNeeded: hash >> 20)
    }
}

/// A zone with the stretch of constant offset that was asked for last: nearly every question falls into it.
private final class CachedZone {
    private let name: [UInt8]
    private let zone: Zone
    private var stretch: Zone.Stretch

    init(name: [UInt8], zone: Zone) {
        self.name = name
        self.zone = zone
        stretch = zone.stretch(at: 0)
    }

    func isNamed(_ other: Span<UInt8>) -> Bool {
        guard name.count == other.count else { return false }
        for index in 0..<name.count where name[index] != other[index] { return false }
        return true
    }

    func offset(at seconds: Int64) -> Int {
        if seconds < stretch.from || seconds >= stretch.until { stretch = zone.stretch(at: seconds) }
        return stretch.offset
    }
}
