import Domain
import JSON

/// Writes the days of a record: each key is stored with one instruction, comma and colon included, in room that was
/// made for all days at once.
///
/// `@unchecked Sendable`: what the pointer leads to is written in `init` and only read afterwards.
final class DaysText: @unchecked Sendable {
    static let shared = DaysText()

    /// `,"steps":`, with the bytes behind it of no meaning.
    private struct Key {
        /// All of it is stored, whatever the key's length.
        var bytes = SIMD32<UInt8>(repeating: 0)
        var length = 0

        init(_ name: StaticString) {
            let text = [UInt8](",\"\(name)\":".utf8)
            // A name that does not fit would be cut here, and `DaysRecordTests` would see it.
            length = min(text.count, 32)
            for (index, byte) in text.prefix(32).enumerated() { bytes[index] = byte }
        }
    }

    /// `,{"date":"`, `YYYY-MM-`, two digits, `"` and `}`, and what the last store reaches behind them.
    private static let dayRoom = 24 + 32 + DecimalText.tenthsRoom
    private static let metricRoom = 32 + DecimalText.tenthsRoom

    /// By the metrics' numbers.
    private let keys: UnsafeMutablePointer<Key>
    private let valuesAt = DaysRecord.Day.offsetOfValues
    private let tenthsAt = DaysRecord.Day.offsetOfTenths

    private init() {
        keys = .allocate(capacity: Metric.count)
        for definition in MetricLedger.definitions {
            (keys + definition.metric.index).initialize(to: Key(definition.name))
        }
    }

    deinit { keys.deallocate() }

    func write(_ days: [DaysRecord.Day], into writer: inout JSONWriter, _ month: inout MonthMemo) {
        guard !days.isEmpty else {
            writer.beginArray()
            return writer.endArray()
        }
        var metrics = 0
        let span = days.span
        for index in span.indices { metrics &+= span[index].values.mask.count }
        // Every store below lies in the room of its day or metric, since none of them takes all of its own.
        let room = days.count &* Self.dayRoom &+ metrics &* Self.metricRoom
        writer.value(room: room) { start in
            days.withUnsafeBytes { days in
                let place = write(days, to: start, &month)
                // The first day has no comma before it.
                start.storeBytes(of: UInt8(ascii: "["), as: UInt8.self)
                place.storeBytes(of: UInt8(ascii: "]"), as: UInt8.self)
                return place - start + 1
            }
        }
    }

    /// The memory of the days, each with a comma before it; gives the place behind the last.
    @inline(__always)
    private func write(
        _ days: UnsafeRawBufferPointer,
        to start: UnsafeMutableRawPointer,
        _ month: inout MonthMemo
    ) -> UnsafeMutableRawPointer {
        var place = start
        guard var day = days.baseAddress else { return place }
        let (stride, valuesAt, tenthsAt) = (MemoryLayout<DaysRecord.Day>.stride, valuesAt, tenthsAt)
        let end = day + days.count
        // Every load is of a part of a day of the array, which is trivial memory.
        while day < end {
            let (prefix, number) = month.write(day.load(as: CalendarDay.self))
            // `,{"date":"`
            place.storeBytes(of: UInt64(0x2265_7461_6422_7b2c).littleEndian, as: UInt64.self)
            place.storeBytes(of: UInt16(0x223a).littleEndian, toByteOffset: 8, as: UInt16.self)
            place.storeBytes(of: prefix, toByteOffset: 10, as: UInt64.self)
            let tens = number / 10
            let digits = UInt16(truncatingIfNeeded: 0x3030 &+ tens &+ (number &- tens &* 10) &<< 8)
            place.storeBytes(of: digits.littleEndian, toByteOffset: 18, as: UInt16.self)
            place.storeBytes(of: UInt8(ascii: "\""), toByteOffset: 20, as: UInt8.self)
            place += 21
            // Bits of known metrics alone, so that keys and values are there.
            var rest = day.load(fromByteOffset: valuesAt, as: MetricSet.self).rawValue
            while rest != 0 {
                let metric = rest.trailingZeroBitCount
                rest &= rest &- 1
                let key = keys + metric
                place.storeBytes(of: key.pointee.bytes, as: SIMD32<UInt8>.self)
                place += key.pointee.length
                let tenths = day.load(fromByteOffset: tenthsAt &+ metric &* 4, as: Int32.self)
                place += DecimalText.writeTenths(tenths, to: place)
            }
            place.storeBytes(of: UInt8(ascii: "}"), as: UInt8.self)
            place += 1
            day += stride
        }
        return place
    }
}
