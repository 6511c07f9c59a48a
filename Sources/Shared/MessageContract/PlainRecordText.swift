import Domain
import JSON

/// Reads a record's value as our own writers make it, in one pass over the bytes: no white space, `days` last, in each day
/// the date first, known metrics, ASCII without escapes, decimal numbers with one digit behind the point at most. Of
/// anything else it says nil, and the value is read the general way, through simdjson. So it decides nothing: what it
/// accepts, both ways give the same for (`DaysRecordTests`).
struct PlainRecordText {
    private var place: UnsafePointer<UInt8>
    private let end: UnsafePointer<UInt8>

    // Between two looks at the value's end at most a key and a number are passed, fewer bytes than `JSONParser.padding`.
    // Whoever passes the end that way never stands at it again, and is refused.

    /// - Parameter value: with `JSONParser.padding` readable bytes behind it.
    init?(padded value: UnsafeRawBufferPointer) {
        guard let start = value.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        place = start
        end = start + value.count
    }

    /// The members before `days`; what comes next is the array.
    mutating func readFields() -> RecordFields? {
        guard place < end, take(UInt8(ascii: "{")) else { return nil }
        var fields = RecordFields()
        repeat {
            guard let key = takeText(), take(UInt8(ascii: ":")) else { return nil }
            let member = RecordFields.Member(key)
            if member == .days { return fields }
            guard let text = takeText() else { return nil }
            guard let member else { continue }
            guard fields.set(member, .text(text)) else { return nil }
        } while take(UInt8(ascii: ","))
        return nil
    }

    /// The array and the end of the value.
    ///
    /// - Parameters:
    ///   - stamp: what the readings have in common.
    ///   - keys: what is known of them.
    ///   - bounds: by the metrics' numbers.
    ///   - month: likewise of dates.
    /// - Returns: the readings in their order.
    mutating func readDays(
        _ stamp: RecordStamp,
        _ keys: MetricKeys,
        _ bounds: UnsafeMutablePointer<MetricBounds>,
        _ month: inout MonthMemo
    ) -> [Reading]? {
        guard take(UInt8(ascii: "[")) else { return nil }
        var readings: [Reading] = []
        if !take(UInt8(ascii: "]")) {
            repeat {
                let start = place
                guard place < end, readings.count < RecordLimits.days, take(UInt8(ascii: "{")),
                    let (date, values) = readDay(keys, bounds, &month), date <= stamp.lastDate
                else { return nil }
                // Days of one record are about as long as the first.
                if readings.isEmpty { readings.reserveCapacity(min((end - start) / (place - start) + 1, 64)) }
                readings.append(stamp.reading(date, values))
            } while take(UInt8(ascii: ","))
            guard take(UInt8(ascii: "]")) else { return nil }
        }
        guard take(UInt8(ascii: "}")), place == end else { return nil }
        return readings
    }

    /// What stands behind the brace of a day.
    @inline(__always)
    private mutating func readDay(
        _ keys: MetricKeys,
        _ bounds: UnsafeMutablePointer<MetricBounds>,
        _ month: inout MonthMemo
    ) -> (CalendarDay, MetricValues)? {
        // `"date":"`
        guard UInt64(littleEndian: UnsafeRawPointer(place).loadUnaligned(as: UInt64.self)) == 0x223a_2265_7461_6422,
            place[18] == UInt8(ascii: "\""), let date = month.read(JSONText(start: place + 8, count: 10))
        else { return nil }
        place += 19
        var values = MetricValues()
        var seen: MetricSet = []
        var number = 0
        while take(UInt8(ascii: ",")) {
            guard place < end, let (metric, length) = keys.metric(quoted: place, at: number), !seen.has(metric)
            else { return nil }
            place += length
            number += 1
            seen.insert(metric)
            let limits = bounds[metric.index]
            guard let tenths = takeTenths(limits) else { return nil }
            if tenths != 0 || !limits.zeroIsNeverRead { values[metric] = tenths }
        }
        return take(UInt8(ascii: "}")) ? (date, values) : nil
    }

    /// A number as `MetricNumber.read` takes it. What stands behind it has to be looked at: the number might go on there.
    @inline(__always)
    private mutating func takeTenths(_ bounds: MetricBounds) -> Int32? {
        var whole: Int32 = 0
        var digits = 0
        while digits < 8, place[digits] &- 0x30 < 10 {
            whole = whole &* 10 &+ Int32(place[digits] &- 0x30)
            digits &+= 1
        }
        // Eight digits are out of every range, and zeros in front are no JSON.
        guard digits >= 1, digits <= 7, digits == 1 || place[0] != 0x30 else { return nil }
        var tenths = whole &* 10
        if place[digits] == UInt8(ascii: ".") {
            let fraction = place[digits + 1] &- 0x30
            guard fraction < 10, !bounds.isWhole, whole < 1_000_000 else { return nil }
            tenths &+= Int32(fraction)
            digits &+= 2
        } else if whole > 1_000_000 {
            return nil
        }
        guard tenths == 0 || (tenths >= bounds.lowest && tenths <= bounds.highest) else { return nil }
        place += digits
        return tenths
    }

    private mutating func takeText() -> JSONText? {
        guard place < end, take(UInt8(ascii: "\"")) else { return nil }
        let start = place
        while place < end {
            let byte = place.pointee
            if byte == UInt8(ascii: "\"") {
                defer { place += 1 }
                return JSONText(start: start, count: place - start)
            }
            guard byte >= 0x20, byte < 0x80, byte != UInt8(ascii: "\\") else { return nil }
            place += 1
        }
        return nil
    }

    @inline(__always)
    private mutating func take(_ wanted: UInt8) -> Bool {
        guard place.pointee == wanted else { return false }
        place += 1
        return true
    }
}
