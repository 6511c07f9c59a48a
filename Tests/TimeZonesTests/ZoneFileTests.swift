import Domain
import Testing

@testable import TimeZones

struct ZoneFileTests {
    @Test func `damaged files are refused or read, and never trap`() throws {
        let good = try #require(readFile("/usr/share/zoneinfo/Europe/Berlin", limit: 1 << 20))
        #expect(Zone(compiled: good) != nil)
        var state: UInt64 = 5
        func random(_ limit: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % limit
        }
        for _ in 0..<3000 {
            var bytes = good
            for _ in 0..<(1 + random(4)) { bytes[random(min(bytes.count, 200))] = UInt8(random(256)) }
            if random(4) == 0 { bytes.removeLast(random(bytes.count)) }
            _ = Zone(compiled: bytes)?.stretch(at: 1_700_000_000)
        }
        #expect(Zone(compiled: []) == nil)
    }

    @Test func `rules of the footer give the days they name`() throws {
        let berlin = try #require(PosixRule(Array("CET-1CEST,M3.5.0,M10.5.0/3".utf8)))
        let summer = try #require(berlin.summer)
        #expect(berlin.standardOffset == 3600 && summer.offset == 7200)
        #expect(summer.start.instant(year: 2026, offset: 3600) == 1_774_746_000)
        #expect(summer.end.instant(year: 2026, offset: 7200) == 1_792_890_000)
        let tokyo = try #require(PosixRule(Array("JST-9".utf8)))
        #expect(tokyo.standardOffset == 32_400 && tokyo.summer == nil)
        let named = try #require(PosixRule(Array("<+0330>-3:30".utf8)))
        #expect(named.standardOffset == 12_600)
        let julian = try #require(PosixRule(Array("AAA3BBB2:30,J60/-1,365/25".utf8))?.summer)
        #expect(julian.start == .init(day: .julian(60), seconds: -3600))
        #expect(julian.start.instant(year: 2024, offset: 0) == 1_709_251_200 - 3600)
        #expect(julian.end.instant(year: 2023, offset: 0) == 1_704_067_200 + 90_000)
        for bad in ["", "X", "CET", "CET-1CEST", "CET-1CEST,M13.1.0,M1.1.0", "CET-999", "CET-1x", "<CET-1"] {
            #expect(PosixRule(Array(bad.utf8)) == nil, "\(bad)")
        }
    }
}
