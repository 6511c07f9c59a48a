import Domain

/// The rule at the end of a compiled zone, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
struct PosixRule {
    struct Summer {
        var offset: Int
        var start: Change
        var end: Change
    }

    /// A day of the year and a time of that day by the clock that holds before it.
    struct Change: Equatable {
        enum Day: Equatable {
            /// 1…365, February 29 not counted.
            case julian(Int)
            /// 0…365, February 29 counted.
            case zeroBased(Int)
            /// Month, week 1…5 (5 is the last), day of the week from Sunday.
            case weekday(month: Int, week: Int, day: Int)
        }

        var day: Day
        var seconds: Int

        /// The change in seconds since 1970, given the offset that holds before it.
        func instant(year: Int, offset: Int) -> Int64 {
            let base: Int
            switch day {
            case .julian(let number):
                let leaps = CalendarDay(year: year, month: 2, day: 29) != nil && number >= 60
                base = Self.first(year, 1) + number - (leaps ? 0 : 1)
            case .zeroBased(let number):
                base = Self.first(year, 1) + number
            case .weekday(let month, let week, let day):
                let first = Self.first(year, month)
                // 1970-01-01 was a Thursday.
                let weekdayOfFirst = ((first + 4) % 7 + 7) % 7
                var date = first + (day - weekdayOfFirst + 7) % 7 + (week - 1) * 7
                let next = month == 12 ? Self.first(year + 1, 1) : Self.first(year, month + 1)
                while date >= next { date -= 7 }
                base = date
            }
            return Int64(base) * 86_400 + Int64(seconds - offset)
        }

        private static func first(_ year: Int, _ month: Int) -> Int {
            Int(CalendarDay(year: year, month: month, day: 1)?.daysSinceEpoch ?? 0)
        }
    }

    var standardOffset: Int
    var summer: Summer?

    init?(_ text: [UInt8]) {
        var reader = RuleReader(text: text)
        guard reader.name(), let standard = reader.duration() else { return nil }
        standardOffset = -standard
        guard !reader.isAtEnd else { return }
        guard reader.name() else { return nil }
        var offset = standardOffset + 3600
        if !reader.isNext(",") {
            guard let given = reader.duration() else { return nil }
            offset = -given
        }
        guard reader.take(","), let start = reader.change(), reader.take(","), let end = reader.change(),
            reader.isAtEnd
        else { return nil }
        summer = Summer(offset: offset, start: start, end: end)
    }
}

private struct RuleReader {
    let text: [UInt8]
    var index = 0

    var isAtEnd: Bool { index >= text.count }

    func isNext(_ character: Unicode.Scalar) -> Bool {
        index < text.count && UInt32(text[index]) == character.value
    }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard isNext(character) else { return false }
        index += 1
        return true
    }

    /// `CET` or `<+03>`.
    mutating func name() -> Bool {
        if take("<") {
            while index < text.count, !isNext(">") { index += 1 }
            return take(">")
        }
        let start = index
        while index < text.count, (65...90).contains(text[index]) || (97...122).contains(text[index]) { index += 1 }
        return index - start >= 3
    }

    mutating func number() -> Int? {
        let start = index
        var value = 0
        while index < text.count, (48...57).contains(text[index]), index - start < 4 {
            value = value * 10 + Int(text[index]) - 48
            index += 1
        }
        return index > start ? value : nil
    }

    /// `[+-]hh[:mm[:ss]]` in seconds.
    mutating func duration() -> Int? {
        let isNegative = take("-")
        if !isNegative { _ = take("+") }
        guard let hours = number(), hours <= 167 else { return nil }
        var seconds = hours * 3600
        for unit in [60, 1] where take(":") {
            guard let part = number(), part < 60 else { return nil }
            seconds += part * unit
        }
        return isNegative ? -seconds : seconds
    }

    mutating func change() -> PosixRule.Change? {
        let day: PosixRule.Change.Day
        if take("M") {
            guard let month = number(), (1...12).contains(month), take("."), let week = number(),
                (1...5).contains(week), take("."), let weekday = number(), (0...6).contains(weekday)
            else { return nil }
            day = .weekday(month: month, week: week, day: weekday)
        } else if take("J") {
            guard let number = number(), (1...365).contains(number) else { return nil }
            day = .julian(number)
        } else {
            guard let number = number(), number <= 365 else { return nil }
            day = .zeroBased(number)
        }
        guard take("/") else { return PosixRule.Change(day: day, seconds: 7200) }
        guard let seconds = duration() else { return nil }
        return PosixRule.Change(day: day, seconds: seconds)
    }
}
