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

    @Test func `every zone agrees with Foundation's, over fifteen years`() throws {
        let zones = ZoneTable()
        var compared = 0
        for name in TimeZone.knownTimeZoneIdentifiers {
            guard let zone = TimeZone(identifier: name), name.first?.isUppercase == true else { continue }
            for week in 0..<780 {
                let seconds = 1_577_836_800 + week * 7 * 86_400 + 1800
                guard let offset = zones.offset(name, at: Instant(microseconds: Int64(seconds) * 1_000_000)) else {
                    break
                }
                #expect(
                    offset == zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds))),
                    "\(name) \(seconds)"
                )
                compared += 1
            }
        }
        #expect(compared > 200_000)
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
