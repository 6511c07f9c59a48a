import Domain
import JSON
import MessageContract
import ServiceRuntime
import Testing
import TimeZones

@testable import IngestService

/// Bodies as phones write them are read in one pass, all others through simdjson's tree: nobody can tell which it was.
@Suite struct PlainDaysTests {
    private let decoder: DaysRequestDecoder

    init() throws {
        decoder = try DaysRequestDecoder(zones: ZoneTable())
    }

    private func isPlain(_ text: String) -> Bool {
        var plain = PlainDays()
        var month = MonthMemo()
        return withPadded(text) { plain.read($0, &month) }
    }

    /// What both ways give, if they give the same.
    private func agreed(_ bytes: [UInt8], behind: [UInt8] = []) throws -> Result<DaysRequest, RequestProblem> {
        let filler = (0..<JSONParser.padding).map { $0 < behind.count ? behind[$0] : UInt8(0x20 + $0) }
        return try (bytes + filler).withUnsafeBytes { all in
            let body = UnsafeRawBufferPointer(rebasing: all[..<bytes.count])
            let context = DaysContext(receivedAt: now, fallbackZone: "UTC")
            let quick = Result { () throws(RequestProblem) in try decoder.decode(padded: body, context) }
            // Whoever is spared writing the days gets the same record.
            if let text = decoder.recordText {
                let request = try quick.get()
                let (taken, written) = (try LanePlan(request, taking: text).records, try LanePlan(request).records)
                try #require(taken == written, "\(String(decoding: bytes, as: UTF8.self))")
            }
            let general = Result { () throws(RequestProblem) in try decoder.decodeTree(padded: body, context) }
            try #require(quick == general, "\(String(decoding: bytes, as: UTF8.self))")
            return quick
        }
    }

    @Test(
        arguments: [
            #"{"date":"2026-09-02","steps":11842,"hrv_sdnn_ms":45.3}"#, #"{"steps":1,"date":"2026-09-02"}"#,
            #"{"date":"2026-09-02","steps":8421.0,"distance_m":1234.5678}"#, #"{"date":"2026-09-02","steps":0}"#,
            #"{ "date": "2026-09-02" }"#, #"{"date":"2026-09-02","steps":null}"#,
            #"{"date":"2026-09-02","sleep_minutes":0,"steps":0.0,"water_ml":0.04}"#,
            #"{"date":"2026-09-02","steps":1},{"date":"2026-09-01","steps":2},{"date":"2026-08-31","steps":3}"#,
            #"{"date":"2026-09-02","steps":1},{"date":"2026-09-02","steps":2},{"date":"2020-01-01","steps":3}"#,
            #"{"date":"2026-09-04","steps":1},{"date":"2026-09-03","steps":0}"#,
        ]
    )
    func `what phones write is read in one pass, with the same result`(days: String) throws {
        for zeros in ["", #""zeros":"observed","#, #""zeros":"missing","origin":null,"#, #""zeros":"wrong","#] {
            for text in [
                #"{"source":"apple_health",\#(zeros)"time_zone":"Europe/Athens","days":[\#(days)]}"#,
                #" { "days": [ \#(days) ] , \#(zeros) "observed_at":"2026-09-02T20:14:05Z","source":"manual" } "#,
            ] {
                #expect(isPlain(text))
                _ = try agreed(Array(text.utf8))
            }
        }
    }

    @Test(
        arguments: [
            "{}", "7", #"{"date":"2026-02-30"}"#, #"{"date":"2026-09-02","mood":1}"#, #"{"steps":1}"#, "",
            #"{"date":"2026-09-02","steps":-1}"#, #"{"date":"2026-09-02","steps":01}"#,
            #"{"date":"2026-09-02","steps":1e3}"#, #"{"date":"2026-09-02","steps":1.}"#,
            #"{"date":"2026-09-02","steps":1.5}"#, #"{"date":"2026-09-02","steps":.5}"#,
            #"{"date":"2026-09-02","steps":100001}"#, #"{"date":"2026-09-02","steps":12345678}"#,
            #"{"date":"2026-09-02","steps":"1"}"#, #"{"date":"2026-09-02","steps":1,"steps":1}"#,
            #"{"date":"2026-09-02","st\u0065ps":1}"#, #"{"date":"2026-09-02","steps":1,}"#,
            #"{"date":"2026-09-02","distance_m":1.2345678901234567}"#, #"{"date":"2026-09-02"}{"#,
            #"{"date":"2026-09-02" "steps":1}"#, #"{"date":"2026-09-02","steps":1x}"#, #"{"date":"2026-09-02",}"#,
        ]
    )
    func `whatever is not plain is left to the general way`(days: String) throws {
        let text = #"{"source":"apple_health","days":[\#(days)]}"#
        #expect(!isPlain(text))
        _ = try agreed(Array(text.utf8))
    }

    @Test(
        arguments: [
            #"{"date":"2026-09-02","steps":11842,"hrv_sdnn_ms":45.3}"#, #"{"date":"2026-09-02","water_ml":0.5}"#,
            #"{"date":"2026-09-01","steps":1},{"date":"2026-09-02","steps":1000,"active_energy_kcal":2.1}"#,
            #"{"date":"2026-09-02","steps":1},{"date":"2026-09-01","steps":2}"#,
            #"{"date":"2026-09-02","steps":1.0}"#, #"{"date":"2026-09-02","steps":1.000,"water_ml":7.30}"#,
            #"{"date":"2026-09-02","active_energy_kcal":1.25},{"date":"2026-09-01","active_energy_kcal": 1.50}"#,
        ]
    )
    func `days that stand as a record has them are not written anew`(days: String) throws {
        _ = try agreed(Array(#" { "source": "manual" , "days":[\#(days)] }"#.utf8))
        let taken = try #require(decoder.recordText)
        #expect(taken.text.count == days.utf8.count + 2)
        // Numbers of the body before are not this one's.
        _ = try agreed(Array(#"{"source":"manual","days": [{"date":"2026-09-02","steps":1}]}"#.utf8))
        #expect(decoder.recordText?.numbers.isEmpty == true)
        // What was known of a body is not said of the next.
        _ = try agreed(Array("{".utf8))
        #expect(decoder.recordText == nil)
    }

    @Test(
        arguments: [
            #"{"steps":1,"date":"2026-09-02"}"#, #"{"date":"2026-09-02","active_energy_kcal":1,"steps":1}"#,
            #"{"date":"2026-09-02","steps":0}"#, #"{"date":"2026-09-02","steps":0.0,"water_ml":1}"#,
            #"{"date":"2026-09-02","steps":null,"water_ml":1}"#, #"{"date":"2026-09-02"}"#,
            #" {"date":"2026-09-02","steps":1}"#, #"{"date":"2026-09-02","steps":1} "#,
            #"{ "date":"2026-09-02","steps":1}"#, #"{"date":"2026-09-02","steps":1 }"#,
            #"{"date":"2026-09-02", "steps":1}"#, #"{"date":"2026-09-02" ,"steps":1}"#,
            #"{"date": "2026-09-02","steps":1}"#,
            "{\"date\":\"2026-09-02\",\"steps\":1\n}",
            #"{"date":"2026-09-02","steps":1}, {"date":"2026-09-01","steps":1}"#,
            #"{"date":"2026-09-02","steps":1},{"date":"2026-09-02","steps":1}"#,
            #"{"date":"2026-09-02","steps":1},{"date":"2020-09-02","steps":1}"#,
        ]
    )
    func `days that a record has otherwise are written anew`(days: String) throws {
        _ = try agreed(Array(#"{"source":"manual","days":[\#(days)]}"#.utf8))
        #expect(decoder.recordText == nil)
    }

    @Test func `a body ends where it ends, whatever stands behind it`() throws {
        let text = Array(
            #"{"time_zone":"Asia/Tokyo","days":[{"date":"2026-09-02","steps":12.0}],"source":"manual"}"#.utf8
        )
        for count in 0...text.count {
            let rest = Array(text[count...].prefix(JSONParser.padding))
            let result = try agreed(Array(text[..<count]), behind: rest)
            if count < text.count { #expect(throws: RequestProblem.self) { try result.get() } }
        }
    }

    @Test func `numbers near every limit and half are the same both ways`() throws {
        var random = SplitMix64(seed: 11)
        for _ in 0..<30_000 {
            let definition = MetricLedger.definitions[Int.random(in: 0..<Metric.count, using: &random)]
            let limit = Bool.random(using: &random) ? definition.tenths.lowerBound : definition.tenths.upperBound
            let whole = max(0, Int(limit / 10) + Int.random(in: -2...2, using: &random))
            var number = String(Bool.random(using: &random) ? whole : Int.random(in: 0...2000, using: &random))
            let digits = Int.random(in: 0...17, using: &random)
            if digits > 0 {
                let tails = ["", "5", "49999999999999999", "50000000000000000", "95", "00000000000000000"]
                let tail = tails[Int.random(in: 0..<tails.count, using: &random)]
                let fraction = String(UInt64.random(in: 0..<1_000_000_000_000_000_000, using: &random))
                number += "." + (String(fraction.prefix(1)) + tail + fraction).prefix(digits)
            }
            let text = #"{"source":"manual","days":[{"date":"2026-09-02","\#(definition.name)":\#(number)}]}"#
            _ = try agreed(Array(text.utf8))
        }
    }

    @Test func `mutated bodies are read the same both ways`() throws {
        var random = SplitMix64(seed: 5)
        let seeds = [
            #"{"source":"health_connect","origin":"a","observed_at":"2026-09-02T21:14:05Z","time_zone":"Asia/Tokyo","#
                + #""zeros":"observed","days":[{"date":"2026-09-02","steps":0,"active_energy_kcal":612.25},"#
                + #"{"date":"2026-09-01","steps":8421,"sleep_minutes":431,"hrv_sdnn_ms":45.3}]}"#,
            #"{"source":"oura","days":[{"date":"2026-02-28","activity_score":90},{"date":"2026-03-01"},"#
                + #"{"water_ml":250.5,"date":"2026-03-01"}]}"#,
        ].map { Array($0.utf8) }
        let pieces = [
            "0", "1", ".", "-", "e", ",", ":", "\"", "{", "}", "[", "]", " ", "\n", "null", "\\", "é", "\"date\":",
            "\"steps\":", "\"steps\":7,", "\"zeros\":", "00", "5", "\"days\":[", "{\"date\":\"2026-09-02\"},", "\0",
        ].map { Array($0.utf8) }
        for round in 0..<40_000 {
            var body = seeds[round % seeds.count]
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let place = Int.random(in: 0..<body.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: body[place] = UInt8.random(in: 0...255, using: &random)
                case 1: body.removeSubrange(place..<min(body.count - 1, place + Int.random(in: 1...9, using: &random)))
                case 2: body.insert(contentsOf: pieces[Int.random(in: 0..<pieces.count, using: &random)], at: place)
                default: body[place] = UInt8(ascii: "0") + UInt8.random(in: 0...9, using: &random)
                }
                if body.isEmpty { body = [0x20] }
            }
            _ = try agreed(body)
        }
    }
}
