import Domain
import Foundation
import Testing
import TimeZones

private func at(_ text: String) -> Instant {
    Instant(rfc3339: text) ?? Instant(microseconds: 0)
}

struct ZoneTableTests {
    @Test func `one moment is two days, in Tokyo and in Los Angeles`() throws {
        let zones = ZoneTable()
        let moment = at("2026-05-13T22:30:00Z")
        let tokyo = try #require(zones.offset("Asia/Tokyo", at: moment))
        #expect(moment.day(secondsFromUTC: tokyo) == CalendarDay("2026-05-14"))
        let evening = at("2026-05-14T03:00:00Z")
        let losAngeles = try #require(zones.offset("America/Los_Angeles", at: evening))
        #expect(evening.day(secondsFromUTC: losAngeles) == CalendarDay("2026-05-13"))
    }

    @Test(arguments: [
        ("Europe/Berlin", "2026-10-25T00:59:59Z", 7200), ("Europe/Berlin", "2026-10-25T01:00:00Z", 3600),
        ("Europe/Berlin", "2026-03-29T00:59:59Z", 3600), ("Europe/Berlin", "2026-03-29T01:00:00Z", 7200),
        ("Pacific/Noumea", "2026-01-01T00:00:00Z", 39_600), ("Pacific/Kiritimati", "2026-01-01T00:00:00Z", 50_400),
        ("Asia/Kathmandu", "2026-01-01T00:00:00Z", 20_700), ("UTC", "2026-01-01T00:00:00Z", 0),
        ("Etc/GMT+12", "2026-01-01T00:00:00Z", -43_200), ("America/St_Johns", "2050-07-01T00:00:00Z", -9000),
        ("Europe/Berlin", "2060-07-01T00:00:00Z", 7200), ("Australia/Sydney", "2060-01-01T00:00:00Z", 39_600),
    ])
    func `offsets are those of the database`(zone: String, moment: String, offset: Int) {
        #expect(ZoneTable().offset(zone, at: at(moment)) == offset)
    }

    @Test(arguments: [
        "", "Mars/Olympus", "/etc/passwd", "../../etc/passwd", "Europe/../../etc/passwd", "Europe//Berlin", "Europe/",
        "Europe", "/Europe/Berlin", "posix/Europe/Berlin", "right/Europe/Berlin", "localtime", "leapseconds",
        "zone.tab", "Europe/Berlin\u{0}", "Europe/Ber lin", "europe/berlin", "Ünited",
        String(repeating: "A", count: 65),
        "+02:00",
    ])
    func `what is no zone is nil, and no path leads out`(name: String) {
        #expect(ZoneTable().offset(name, at: at("2026-01-01T00:00:00Z")) == nil)
    }

    /// `zdump` is the C library's own reader, of the same files: Foundation brings a database of its own, which can
    /// be older or newer than the machine's.
    @Test func `every change of every zone agrees with the C library's reading, over fifteen years`() throws {
        let zones = ZoneTable()
        var compared = 0
        for line in try zdump(TimeZone.knownTimeZoneIdentifiers.filter { $0.first?.isUppercase == true }) {
            // Europe/Berlin  Sun Mar 29 00:59:59 2020 UT = Sun Mar 29 01:59:59 2020 CET isdst=0 gmtoff=3600
            let words = line.split(separator: " ")
            guard words.count == 16, words[6] == "UT", let expected = Int(words[15].dropFirst("gmtoff=".count)),
                let instant = instant(words[1...5])
            else { continue }
            let offset = zones.offset(String(words[0]), at: instant)
            #expect(offset == expected, "\(words[0]) at \(instant)")
            compared += 1
        }
        #expect(compared > 3000)
    }

    private func zdump(_ names: [String]) throws -> [Substring] {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/zdump")
        process.arguments = ["-v", "-c", "2020,2035"] + names
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self).split(separator: "\n")
    }

    /// `Sun Mar 29 00:59:59 2020`, in UTC.
    private func instant(_ words: ArraySlice<Substring>) -> Instant? {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let words = Array(words)
        guard let month = months.firstIndex(of: String(words[1])), let day = Int(words[2]), let year = Int(words[4]),
            let date = CalendarDay(year: year, month: month + 1, day: day)
        else { return nil }
        return Instant(rfc3339: "\(date)T\(words[3])Z")
    }

    @Test func `a question in another season is answered rightly after one in this`() {
        let zones = ZoneTable()
        for _ in 0..<3 {
            #expect(zones.offset("Europe/Athens", at: at("2026-07-01T00:00:00Z")) == 10_800)
            #expect(zones.offset("Europe/Athens", at: at("2026-01-01T00:00:00Z")) == 7200)
        }
    }

    @Test func `a folder without zones knows none`() {
        #expect(ZoneTable(directory: "/nonexistent").offset("UTC", at: at("2026-01-01T00:00:00Z")) == nil)
    }
}
