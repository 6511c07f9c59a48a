import Domain
import JSON
import MessageContract
import Testing

@Suite struct MonthMemoTests {
    /// As a parser hands it over: eight readable bytes lie behind.
    private func read(_ text: String, _ memo: inout MonthMemo) -> CalendarDay? {
        let bytes = Array(text.utf8)
        return (bytes + Array(repeating: 0, count: 8)).withUnsafeBufferPointer {
            memo.read(JSONText(rebasing: $0[..<bytes.count]))
        }
    }

    @Test func `it reads every day as the calendar does, forwards, backwards and in leaps`() throws {
        let first = try #require(CalendarDay("1999-12-01"))
        var memo = MonthMemo()
        for step in [1, -1, 17, -40] {
            for index in 0..<1500 {
                let day = first.advanced(by: index * step)
                #expect(read(day.description, &memo) == day)
            }
        }
    }

    @Test func `it writes what it reads`() throws {
        let first = try #require(CalendarDay("2023-12-20"))
        var memo = MonthMemo()
        for index in 0..<900 {
            let day = first.advanced(by: index * 7 % 500)
            let date = memo.write(day)
            let prefix = withUnsafeBytes(of: date.prefix) { String(decoding: $0, as: UTF8.self) }
            #expect("\(prefix)\(date.day < 10 ? "0" : "")\(date.day)" == day.description)
        }
    }

    @Test(arguments: [
        "2026-02-29", "2026-02-30", "2026-02-00", "2026-02-1", "2026-02-1x", "2026-02-x1", "2026-02-:1", "2026-02-/9",
        "2026-02-011", "2026-02-2\u{7f}", "2026-13-01", "2026/02-01", "",
    ])
    func `it refuses what is no day, in a month that it knows and in another`(text: String) {
        var memo = MonthMemo()
        #expect(read(text, &memo) == nil)
        #expect(read("2026-02-01", &memo) == CalendarDay("2026-02-01"))
        #expect(read(text, &memo) == nil)
        #expect(read("2026-02-28", &memo) == CalendarDay("2026-02-28"))
    }

    @Test func `a month of 29 days is known as one`() {
        var memo = MonthMemo()
        #expect(read("2024-02-01", &memo) != nil)
        #expect(read("2024-02-29", &memo) == CalendarDay("2024-02-29"))
        #expect(read("2024-02-30", &memo) == nil)
    }
}

@Suite struct DaysRecordWriterTests {
    @Test func `memory that is used again changes no record that somebody holds`() throws {
        let date = try #require(CalendarDay("2026-02-27"))
        let writer = DaysRecordWriter()
        var held: [(made: [UInt8], expected: [UInt8])] = []
        for count in [3, 0, 40, 1, 7] {
            let days = (0..<count).map { index in
                DaysRecord.Day(date: date.advanced(by: index), values: [.steps: Int32(index) * 12_340, .hrvSDNN: 305])
            }
            let record = DaysRecord(source: .appleHealth, timeZone: "UTC", localDate: date, days: days)
            held.append((writer.encode(record), record.encoded()))
        }
        for (made, expected) in held { #expect(made == expected) }
    }

    @Test func `times and dates stand in a record as they are shown`() {
        var random = SystemRandomNumberGenerator()
        let writer = DaysRecordWriter()
        for round in 0..<20_000 {
            // Also around midnight, around 1970 and before it.
            let near = Int64.random(in: -200...200, using: &random) * 86_400_000_000
            let any = Int64.random(in: -60_000_000_000_000_000...250_000_000_000_000_000, using: &random)
            let instant = Instant(microseconds: round % 2 == 0 ? any : near + Int64.random(in: -1...1, using: &random))
            let date = instant.day(secondsFromUTC: 7200)
            let record = DaysRecord(
                source: .manual,
                observedAt: instant,
                timeZone: "UTC",
                localDate: date,
                days: []
            )
            let expected =
                #"{"source":"manual","observed_at":"\#(instant)","time_zone":"UTC","local_date":"\#(date)","days":[]}"#
            #expect(String(decoding: writer.encode(record), as: UTF8.self) == expected)
        }
    }

    @Test func `the text of days is taken as it is given`() throws {
        let date = try #require(CalendarDay("2026-02-27"))
        let days: [DaysRecord.Day] = [.init(date: date, values: [.steps: 10]), .init(date: date, values: [.water: 5])]
        let record = DaysRecord(source: .manual, timeZone: "UTC", localDate: date, days: days)
        var bare = record
        bare.days = []
        let writer = DaysRecordWriter()
        for (steps, water) in [("1", "0.5"), ("1.0", "0.5"), ("1.0", " 0.50"), ("1", "0.50")] {
            let pieces = [
                #"[{"date":"2026-02-27","steps":"#, steps, #"},{"date":"2026-02-27","water_ml":"#, water, "}]",
            ]
            let ends = pieces.indices.map { pieces[...$0].joined().utf8.count }
            var numbers: [DaysRecordText.Number] = []
            if steps != "1" { numbers.append(.init(from: ends[0], to: ends[1], tenths: 10)) }
            if water != "0.5" { numbers.append(.init(from: ends[2], to: ends[3], tenths: 5)) }
            let made = Array(pieces.joined().utf8).withUnsafeBytes {
                writer.encode(bare, taking: DaysRecordText($0, numbers))
            }
            #expect(made == record.encoded())
        }
    }
}
