import Domain
import Testing

@Suite struct `The window` {
    @Test func `an entry is kept by day, newer days push older ones out`() {
        var window = Window()
        #expect(window.isEmpty && window.encoded().isEmpty)
        let entry = Window.Entry(of: reading(1, [.steps: 10]))
        window.set(entry, for: someDay)
        window.set(entry, for: someDay.advanced(by: -34))
        #expect(window.days == [someDay, someDay.advanced(by: -34)])
        #expect(!window.reaches(someDay.advanced(by: -35)) && window.reaches(someDay.advanced(by: 400)))
        #expect(window.leaving(for: someDay.advanced(by: 1)) == [someDay.advanced(by: -34)])
        window.set(entry, for: someDay.advanced(by: 1))
        #expect(window[someDay.advanced(by: -34)] == nil && window[someDay] == entry)
        window.set(entry, for: someDay.advanced(by: 1000))
        #expect(window.days == [someDay.advanced(by: 1000)])
        window.set(entry, for: someDay)
        #expect(window[someDay] == nil)
        window.discard(below: someDay.advanced(by: 2000))
        #expect(window.isEmpty)
    }

    @Test(arguments: [1, 2] as [UInt8])
    func `every format keeps everything, and foreign bytes are refused and not taken for an empty window`(
        format: UInt8
    ) throws {
        var generator = SeededGenerator(seed: 3)
        for _ in 0..<200 {
            var window = Window()
            for _ in 0..<Int.random(in: 0...60, using: &generator) {
                let day = someDay.advanced(by: Int.random(in: -40...40, using: &generator))
                window.set(
                    .init(of: reading(Int.random(in: 0...9999, using: &generator), [.steps: 7, .spo2: 970])),
                    for: day
                )
            }
            let bytes = window.encoded(format: format)
            #expect(bytes.count <= 715 && bytes.first ?? format == format)
            let decoded = Window(encoded: bytes.span)
            let back = try #require(decoded)
            #expect(back.days == window.days && back.days.allSatisfy { back[$0] == window[$0] })
            guard !bytes.isEmpty else { continue }
            var damaged = bytes
            damaged[0] = format ^ 3
            let isRefused = Window(encoded: damaged.span) == nil
            #expect(isRefused)
            damaged[0] = Window.newestFormat + 1
            let isNewerRefused = Window(encoded: damaged.span) == nil
            #expect(isNewerRefused)
            let cut = Array(bytes.dropLast())
            let isCutRefused = Window(encoded: cut.span) == nil
            #expect(isCutRefused)
        }
        for count in 1..<40 {
            let noise = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            _ = Window(encoded: noise.span)
        }
    }

    @Test func `what older workers wrote is read: format 1 to the byte`() throws {
        let bytes: [UInt8] =
            [1, 0, 0, 0x50, 0x2a, 0, 0, 0, 0, 0b101]
            + [0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8]
            + [0, 0, 0, 0, 0, 0, 0x12, 0x35, 0, 0, 0, 4, 8, 7, 6, 5, 4, 3, 2, 1]
        let decoded = Window(encoded: bytes.span)
        let window = try #require(decoded)
        let newest = CalendarDay(daysSinceEpoch: 0x502a)
        #expect(window.days == [newest, newest.advanced(by: -2)])
        let first = window[newest]
        #expect(
            first?.version.rawValue == 0x1234 && first?.mask.rawValue == 3 && first?.digest == 0x0102_0304_0506_0708
        )
        #expect(window[newest.advanced(by: -2)]?.version.rawValue == 0x1235)
        #expect(window.encoded(format: 1) == bytes)
    }

    @Test func `a window of one version takes 443 bytes, and a re-send changes its head alone`() {
        func full(_ minute: Int) -> [UInt8] {
            var window = Window()
            for age in 0..<Window.span {
                window.set(.init(of: reading(minute, [.steps: Int32(age)])), for: someDay.advanced(by: -age))
            }
            return window.encoded()
        }
        #expect(full(0).count == 443 && full(0).dropFirst(23) == full(60).dropFirst(23) && full(0) != full(60))
    }

    @Test func `a re-send that confirms changes no row, and its version still counts (A15)`() {
        var row = SourceDay()
        var entry: Window.Entry?
        #expect(row.apply(reading(600, [.steps: 50]), entry: &entry, keepsEntry: true).isRowChanged)
        let noon = reading(720, [.steps: 50])
        #expect(entry?.isConfirmed(by: noon) == true)
        entry?.version = noon.version
        // The reading from eleven o'clock comes late: it must not win over what was confirmed at noon.
        let late = row.apply(reading(660, [.steps: 40]), entry: &entry, keepsEntry: true)
        #expect(!late.isRowChanged && row.values[.steps] == 50)
        row.fold(entry)
        #expect(row.version(of: .steps) == at(720))
    }

    @Test func `the first reading after midnight is no confirmation (C21)`() {
        let entry = Window.Entry(of: reading(0, [.steps: 50]))
        #expect(!entry.isConfirmed(by: reading(600, [.steps: 50], closed: true)))
        #expect(entry.isConfirmed(by: reading(600, [.steps: 50])))
        #expect(!entry.isConfirmed(by: reading(600, [.steps: 50, .water: 0])))
    }
}

/// The windowed rows against a naive register per metric: any order, duplicates, overflowing windows, deletions
/// anywhere.
@Suite struct `Windowed rows mean what naive registers hold` {
    /// What a batch does with one connection, in small.
    private struct Connection {
        var rows: [CalendarDay: SourceDay] = [:]
        var window = Window()
        var watermark = Version(rawValue: 0)
        var rowWrites = 0

        mutating func apply(_ reading: Reading) {
            guard reading.version >= watermark, !reading.values.isEmpty else { return }
            if var entry = window[reading.day], entry.isConfirmed(by: reading) {
                entry.version = max(entry.version, reading.version)
                window.set(entry, for: reading.day)
                return
            }
            for day in window.leaving(for: reading.day) { fold(day) }
            var entry = window[reading.day]
            let keeps = window.reaches(reading.day)
            let result = rows[reading.day, default: SourceDay()].apply(reading, entry: &entry, keepsEntry: keeps)
            if result.isRowChanged { rowWrites += 1 }
            window.set(entry, for: reading.day)
        }

        mutating func delete(below watermark: Version) {
            self.watermark = max(self.watermark, watermark)
            for day in window.days { fold(day) }
            for day in rows.keys { rows[day]?.remove(below: self.watermark) }
        }

        private mutating func fold(_ day: CalendarDay) {
            rows[day]?.fold(window[day])
            window.set(nil, for: day)
        }

        /// Values and effective versions.
        var meaning: [CalendarDay: SourceDay] {
            var meaning: [CalendarDay: SourceDay] = [:]
            for (day, row) in rows {
                var row = row
                row.fold(window[day])
                if !row.isEmpty { meaning[day] = row }
            }
            return meaning
        }
    }

    private enum Event {
        case reading(Reading)
        case deletion(Version)
    }

    private func history(_ generator: inout SeededGenerator) -> [Event] {
        let reach = [2, 8, 50].randomElement(using: &generator) ?? 2
        return (0..<Int.random(in: 2...24, using: &generator)).map { _ in
            if Int.random(in: 0..<14, using: &generator) == 0 {
                return .deletion(at(Int.random(in: 0...12, using: &generator)))
            }
            var values = MetricValues()
            for metric in [Metric.steps, .activeEnergy, .spo2] where Int.random(in: 0..<3, using: &generator) > 0 {
                values[metric] = Int32.random(in: 1...2, using: &generator)
            }
            let day = someDay.advanced(by: -Int.random(in: 0..<reach, using: &generator))
            let version = at(
                Int.random(in: 0...12, using: &generator),
                tie: UInt64.random(in: 0...1, using: &generator)
            )
            return .reading(
                Reading(
                    day: day,
                    values: values,
                    version: version,
                    closed: Int.random(in: 0..<4, using: &generator) == 0
                )
            )
        }
    }

    private func naive(_ events: [Event]) -> [CalendarDay: SourceDay] {
        var watermark = Version(rawValue: 0)
        for case .deletion(let version) in events { watermark = max(watermark, version) }
        var rows: [CalendarDay: SourceDay] = [:]
        for case .reading(let reading) in events where reading.version >= watermark && !reading.values.isEmpty {
            rows[reading.day, default: SourceDay()].apply(reading)
        }
        return rows
    }

    @Test(arguments: 0..<20)
    func `twenty thousand histories, each in several orders`(seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed) &+ 100)
        for _ in 0..<1000 {
            let events = history(&generator)
            let truth = naive(events)
            for _ in 0..<3 {
                var shuffled = events + events.filter { _ in Int.random(in: 0..<3, using: &generator) == 0 }
                shuffled.shuffle(using: &generator)
                var connection = Connection()
                for event in shuffled {
                    switch event {
                    case .reading(let reading): connection.apply(reading)
                    case .deletion(let version): connection.delete(below: version)
                    }
                }
                guard connection.meaning != truth else { continue }
                Issue.record("seed \(seed): the rows mean something else")
                return
            }
        }
    }

    @Test func `thirty unchanged days sent twenty times write thirty rows`() {
        var connection = Connection()
        for round in 0..<20 {
            for day in 0..<30 {
                connection.apply(reading(round, [.steps: 10, .water: 5], day: someDay.advanced(by: -day)))
            }
        }
        #expect(connection.rowWrites == 30)
    }
}
