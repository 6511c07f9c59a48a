/// RFC 3339 in UTC with six digits. The logs have their own, because this module imports nothing of Daybook.
enum Timestamp {
    static func append(microseconds: Int64, to bytes: inout [UInt8]) {
        // The years 0000 to 9999 are all that the format can write.
        let clamped = min(max(microseconds, -62_167_219_200_000_000), 253_402_300_799_999_999)
        let seconds = floored(clamped, by: 1_000_000)
        let dayNumber = floored(seconds, by: 86_400)
        let secondOfDay = seconds - dayNumber * 86_400

        // Howard Hinnant's civil_from_days: years begin in March, eras are 400 years of 146,097 days.
        let shifted = dayNumber + 719_468
        let era = floored(shifted, by: 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)

        put(year, width: 4, then: "-", &bytes)
        put(month, width: 2, then: "-", &bytes)
        put(day, width: 2, then: "T", &bytes)
        put(secondOfDay / 3600, width: 2, then: ":", &bytes)
        put(secondOfDay / 60 % 60, width: 2, then: ":", &bytes)
        put(secondOfDay % 60, width: 2, then: ".", &bytes)
        put(clamped - seconds * 1_000_000, width: 6, then: "Z", &bytes)
    }

    private static func put(_ number: Int64, width: Int, then mark: Unicode.Scalar, _ bytes: inout [UInt8]) {
        var divisor: Int64 = 1
        for _ in 1..<width { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(truncatingIfNeeded: 48 + number / divisor % 10))
            divisor /= 10
        }
        bytes.append(UInt8(ascii: mark))
    }

    private static func floored(_ number: Int64, by divisor: Int64) -> Int64 {
        let quotient = number / divisor
        return number % divisor < 0 ? quotient - 1 : quotient
    }
}
