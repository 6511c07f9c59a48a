import Authentication
import Domain
import MessageContract
import Testing

@testable import IngestService

private let appleHealth = "/api/sync/apple-health"
private let trainee = "/v1/trainee/health/days"

/// The clock of these tests is 2026-09-02T21:14:06Z: the 2nd in New York and the 3rd in Athens.
struct AppleHealthRouteTests {
    private let sending = Sending()

    @Test func `one day is stored with every field, in our units`() throws {
        let body =
            #"{"date":"2026-09-02","steps":8421,"active_calories":512.54,"basal_calories":1611,"total_calories":2123,"#
            + #""active_minutes":61,"exercise_minutes":34,"water_oz":50.7,"resting_heart_rate":58,"hrv":48.2,"#
            + #""sleep_minutes":431,"distance_m":6201.4,"mood":"fine"}"#
        let days = try sending.days(appleHealth, body)
        #expect(days.count == 1)
        #expect(days[0].source == .appleHealth && days[0].origin == "")
        #expect(days[0].user == UserID(high: 1, low: 2))
        #expect(days[0].readings.map(\.day) == [CalendarDay("2026-09-02")])
        let expected: MetricValues = [
            .steps: 84_210, .activeEnergy: 5125, .basalEnergy: 16_110, .totalEnergy: 21_230, .activeMinutes: 610,
            .exerciseMinutes: 340, .water: 14_994, .restingHeartRate: 580, .hrvSDNN: 482, .sleepMinutes: 4310,
            .distance: 62_014,
        ]
        #expect(days[0].readings.map(\.values) == [expected])
        #expect(try sending.outcome("POST", appleHealth, body) == #"200 {"success":true,"days":1,"warnings":[]}"#)
    }

    @Test func `several days are one request, and of two with one date the last counts`() throws {
        let body =
            #"{"days":[{"date":"2026-09-01","steps":1},{"date":"2026-09-02","steps":2},{"date":"2026-09-01","steps":3}]}"#
        let days = try sending.days(appleHealth, body)
        #expect(days.flatMap(\.readings).map(\.values) == [[.steps: 30], [.steps: 20]])
        #expect(try sending.outcome("POST", appleHealth, body) == #"200 {"success":true,"days":2,"warnings":[]}"#)
    }

    @Test(arguments: [#""steps":0"#, #""steps":-1"#, #""steps":-0.5"#, #""steps":null"#, #""mood":1"#])
    func `A8: a missing read never becomes a value, but proves that the phone is awake`(field: String) throws {
        let body = #"{"date":"2026-09-02",\#(field)}"#
        let days = try sending.days(appleHealth, body)
        #expect(days.map(\.readings.count) == [0])
        #expect(try sending.outcome("POST", appleHealth, body) == #"200 {"success":true,"days":0,"warnings":[]}"#)
    }

    @Test func `zeros of other metrics are missing reads too, and their neighbours are kept`() throws {
        let body = #"{"date":"2026-09-02","steps":0,"hrv":0,"resting_heart_rate":0,"water_oz":0,"sleep_minutes":420}"#
        #expect(try sending.days(appleHealth, body).flatMap(\.readings).map(\.values) == [[.sleepMinutes: 4200]])
    }

    @Test(arguments: [#""date":"09/02/2026","#, #""date":"2026-02-30","#, #""date":7,"#, #""date":null,"#, ""])
    func `a malformed date is today in the fallback zone, and a warning says so`(date: String) throws {
        let body = #"{\#(date)"steps":5}"#
        for (zone, today) in [("America/New_York", "2026-09-02"), ("Europe/Athens", "2026-09-03")] {
            var sending = sending
            sending.fallbackZone = zone
            // The user's own zone does not matter for this.
            sending.claimedZone = "Pacific/Kiritimati"
            let days = try sending.days(appleHealth, body)
            #expect(days.flatMap(\.readings).map(\.day) == [CalendarDay(today)])
            let warning = "date: missing or malformed, taken as today in \(zone)"
            #expect(
                try sending.outcome("POST", appleHealth, body)
                    == #"200 {"success":true,"days":1,"warnings":["\#(warning)"]}"#
            )
        }
    }

    @Test func `a body of repeated keys is refused with an answer that is no larger than itself`() throws {
        let keys = Array(repeating: #""hrv":1,"date":"x""#, count: 20_000).joined(separator: ",")
        guard case .failure(let problem) = try sending.send("POST", appleHealth, "{\(keys)}") else {
            Issue.record("it was accepted")
            return
        }
        #expect(problem.status == 422 && problem.errors.count < 20)
        let stored = try sending.outcome("POST", appleHealth, #"{"days":[{"steps":1},{\#(keys)}]}"#)
        #expect(stored.hasPrefix("200 ") && stored.utf8.count < 2000)
    }

    @Test func `a bad day is told in the warnings and its neighbours are stored`() throws {
        let body =
            #"{"days":[{"date":"2026-09-01","steps":7},{"date":"2026-09-02","steps":"many","hrv":777},7]}"#
        #expect(
            try sending.outcome("POST", appleHealth, body)
                == #"200 {"success":true,"days":1,"warnings":["days[1].steps: not_a_number, the day was left out","#
                + #""days[1].hrv: out_of_range, the day was left out"]}"#
        )
    }

    @Test(arguments: [
        ("", "400 empty"), ("[]", "400 bad_shape  bad_shape"), (#"{"days":7}"#, "400 bad_shape days bad_shape"),
        (#"{"days":null}"#, "400 bad_shape days bad_shape"), (#"{"days":[]}"#, "422 invalid days no_days"),
        (#"{"days":[],"days":[]}"#, "422 invalid days duplicate_key"),
        (#"{"date":"2026-09-02","steps":88.07}"#, "422 invalid steps not_whole"),
        (#"{"date":"2026-09-02","steps":1,"steps":1}"#, "422 invalid steps duplicate_key"),
        (#"{"date":"2026-09-02","water_oz":700}"#, "422 invalid water_oz out_of_range"),
        (#"{"date":"2026-09-02","active_calories":-1}"#, "422 invalid active_calories out_of_range"),
        (#"{"days":[7]}"#, "422 invalid days[0] not_an_object"),
    ])
    func `what can't be used at all is a problem`(body: String, expected: String) throws {
        #expect(try sending.outcome("POST", appleHealth, body) == expected)
    }

    @Test func `days outside the window are left out with a warning`() throws {
        let body =
            #"{"days":[{"date":"2025-01-01","steps":1},{"date":"2026-09-04","steps":1},{"date":"2026-09-03","steps":1}]}"#
        #expect(
            try sending.outcome("POST", appleHealth, body)
                == #"200 {"success":true,"days":1,"warnings":["days[0].date: more than 400 days ago, the day was left out","#
                + #""days[1].date: more than a day ahead, the day was left out"]}"#
        )
    }

    @Test func `at most 400 days are taken, and old ones go to the history lane`() throws {
        let today = CalendarDay("2026-09-02") ?? CalendarDay(daysSinceEpoch: 0)
        func body(_ count: Int) -> String {
            let days = (0..<count).map { #"{"date":"\#(today.advanced(by: -$0))","steps":1}"# }
            return #"{"days":[\#(days.joined(separator: ","))]}"#
        }
        #expect(try sending.outcome("POST", appleHealth, body(401)) == "422 invalid days too_many_days")
        let plan = try sending.send("POST", appleHealth, body(400)).get()
        #expect(plan.records.map(\.topic) == [.daysLive, .daysHistory])
    }

    @Test func `the record names the user's zone, from token, header or setting`() throws {
        func zone(_ sending: Sending) throws -> String? {
            let plan = try sending.send("POST", appleHealth, #"{"date":"2026-09-02","steps":1}"#).get()
            return plan.records.first?.text.split(separator: #""time_zone":""#).last?.split(separator: "\"").first
                .map(String.init)
        }
        #expect(try zone(Sending()) == "America/New_York")
        #expect(try zone(Sending(headerZone: "Europe/Athens")) == "Europe/Athens")
        #expect(try zone(Sending(claimedZone: "Asia/Tokyo", headerZone: "Europe/Athens")) == "Asia/Tokyo")
        #expect(try zone(Sending(claimedZone: "Mars/Base", headerZone: "../etc")) == "America/New_York")
    }
}

struct TraineeDaysRouteTests {
    private func body(_ days: String...) -> String { #"{"days":[\#(days.joined(separator: ","))]}"# }
    private func day(_ date: String, _ steps: String = "1") -> String { #"{"date":"\#(date)","steps":\#(steps)}"# }

    @Test func `steps are stored, and the answer counts the days written`() throws {
        let text = body(day("2026-09-01", "7050"), day("2026-09-02", "8421.0"))
        let days = try Sending().days(trainee, text)
        #expect(days.flatMap(\.readings).map(\.values) == [[.steps: 70_500], [.steps: 84_210]])
        #expect(try Sending().outcome("POST", trainee, text) == #"201 {"days":2}"#)
    }

    @Test(arguments: [
        ("7", "400 bad_shape  bad_shape"), ("{}", "400 bad_shape days bad_shape"),
        (#"{"days":{}}"#, "400 bad_shape days bad_shape"), (#"{"days":[]}"#, "400 invalid days number_of_days"),
        (#"{"days":[7]}"#, "400 invalid days[0] not_an_object"),
        (#"{"days":[{}]}"#, "400 invalid days[0].date bad_date"),
        (#"{"days":[{"date":"2026-09-02"}]}"#, "400 invalid days[0].steps bad_steps"),
        (#"{"days":[{"date":"2026-9-2","steps":1}]}"#, "400 invalid days[0].date bad_date"),
        (#"{"days":[{"date":"2026-09-02T00:00:00Z","steps":1}]}"#, "400 invalid days[0].date bad_date"),
        (#"{"days":[{"date":"2026-02-30","steps":1}]}"#, "400 invalid days[0].date bad_date"),
        (#"{"days":[{"date":"2026-09-02","steps":null}]}"#, "400 invalid days[0].steps bad_steps"),
        (#"{"days":[{"date":"2026-09-02","steps":-1}]}"#, "400 invalid days[0].steps bad_steps"),
        (#"{"days":[{"date":"2026-09-02","steps":100001}]}"#, "400 invalid days[0].steps bad_steps"),
        (#"{"days":[{"date":"2026-09-02","steps":88.07}]}"#, "400 invalid days[0].steps bad_steps"),
        (#"{"days":[{"date":"2026-09-02","steps":"8421"}]}"#, "400 invalid days[0].steps bad_steps"),
        (
            #"{"days":[{"date":"2026-09-01","steps":1},{"date":"2026-09-02","steps":-1}]}"#,
            "400 invalid days[1].steps bad_steps"
        ),
        (#"{"days":[{"date":"2026-09-02","steps":1,"steps":1}]}"#, "400 invalid days[0].steps duplicate_key"),
    ])
    func `any violation refuses the whole body`(text: String, expected: String) throws {
        #expect(try Sending().outcome("POST", trainee, text) == expected)
    }

    @Test func `1 to 90 days are taken`() throws {
        let today = CalendarDay("2026-09-02") ?? CalendarDay(daysSinceEpoch: 0)
        func outcome(_ count: Int) throws -> String {
            let days = (0..<count).map { day(today.advanced(by: -$0).description) }
            return try Sending().outcome("POST", trainee, #"{"days":[\#(days.joined(separator: ","))]}"#)
        }
        #expect(try outcome(90) == #"201 {"days":90}"#)
        #expect(try outcome(91) == "400 invalid days number_of_days")
    }

    @Test func `dates outside the window are left out silently, in the trainee's zone`() throws {
        // 21:14 UTC on the 2nd: still the 2nd in UTC, the 3rd in Athens and on Kiritimati.
        func written(_ date: String, _ sending: Sending = Sending()) throws -> String {
            try sending.outcome("POST", trainee, body(day(date)))
        }
        let one = #"201 {"days":1}"#
        let none = #"201 {"days":0}"#
        #expect(try written("2026-09-03") == one)
        #expect(try written("2026-09-04") == none)
        #expect(try written("2026-06-04") == one)
        #expect(try written("2026-06-03") == none)
        let athens = Sending(headerZone: "Europe/Athens")
        #expect(try written("2026-09-04", athens) == one)
        #expect(try written("2026-06-04", athens) == none)
        let claim = Sending(claimedZone: "America/New_York", headerZone: "Europe/Athens")
        #expect(try written("2026-09-04", claim) == none)
        // The setting for zones is not for this route.
        #expect(try written("2026-09-04", Sending(fallbackZone: "Europe/Athens")) == none)
    }

    @Test func `a date twice: the last wins and counts once`() throws {
        let text = body(day("2026-09-02", "5"), day("2026-09-01", "6"), day("2026-09-02", "7"))
        #expect(try Sending().days(trainee, text).flatMap(\.readings).map(\.values) == [[.steps: 70], [.steps: 60]])
        #expect(try Sending().outcome("POST", trainee, text) == #"201 {"days":2}"#)
    }

    @Test func `a zero is a missing read, and proves that the phone is awake`() throws {
        let text = body(day("2026-09-02", "0"))
        #expect(try Sending().days(trainee, text).map(\.readings.count) == [0])
        #expect(try Sending().outcome("POST", trainee, text) == #"201 {"days":0}"#)
    }

    @Test(
        arguments: [(.ios, .appleHealth), (.android, .healthConnect), (nil, .appleHealth)] as [(Platform?, Source)]
    )
    func `the token's platform says which store the steps are from`(platform: Platform?, source: Source) throws {
        #expect(try Sending(platform: platform).days(trainee, body(day("2026-09-02"))).map(\.source) == [source])
    }

    @Test(arguments: [
        (#"{"samples":[]}"#, #"201 {"accepted":0}"#),
        (#"{"samples":[{"type":"x","value":1}]}"#, #"201 {"accepted":0}"#),
        ("{}", "400 bad_shape samples bad_shape"), ("7", "400 bad_shape  bad_shape"), ("", "400 empty"),
        (#"{"samples":{}}"#, "400 bad_shape samples bad_shape"),
        (#"{"samples":[{},7]}"#, "400 invalid samples[1] not_an_object"),
        (#"{"samples":[],"samples":[]}"#, "400 invalid samples duplicate_key"),
    ])
    func `samples are retired: checked, answered as ever, and not stored`(text: String, expected: String) throws {
        let path = "/v1/trainee/health/samples"
        #expect(try Sending().outcome("POST", path, text) == expected)
        if case .success(let plan) = try Sending().send("POST", path, text) { #expect(plan.records.isEmpty) }
    }
}

struct WearableRouteTests {
    private let path = "/api/v1/wearable/data"

    private func points(_ text: String) throws -> [DecodedPoints] {
        let decoder = try PointsRecordDecoder()
        return try Sending().send("POST", path, text).get().records.map { record in
            #expect(record.topic == .points && record.schema == .points1)
            return try record.decode { try decoder.decode(key: $0, value: $1, headers: $2, appendTime: nil).get() }
        }
    }

    private func body(_ points: String...) -> String {
        #"{"device_id":"watch-7","points":[\#(points.joined(separator: ","))]}"#
    }

    @Test func `a point is stored with every field, at its moment`() throws {
        let text = body(
            #"{"timestamp":"2026-09-02T23:14:00.5+02:00","heart_rate":61.25,"steps":12,"calories":1.44,"#
                + #""data":{"a":[1,2.5,{"b":null}]},"other":1}"#
        )
        let record = try #require(points(text).first)
        #expect(record.user == UserID(high: 1, low: 2))
        #expect(record.record.deviceID == "watch-7" && record.record.timeZone == "America/New_York")
        let expected = PointsRecord.Point(
            time: Instant(rfc3339: "2026-09-02T21:14:00.5Z") ?? .earliest,
            heartRate: 613,
            steps: 120,
            activeEnergy: 14,
            data: Array(#"{"a":[1,2.5,{"b":null}]}"#.utf8)
        )
        #expect(record.record.points == [expected])
        #expect(try Sending().outcome("POST", path, text) == #"202 {"accepted":1,"errors":[]}"#)
    }

    @Test func `null is absent, a timestamp seen again replaces by field, and zero steps are steps`() throws {
        let text = body(
            #"{"timestamp":"2026-09-02T21:14:00Z","heart_rate":61,"steps":5}"#,
            #"{"timestamp":"2026-09-02T21:15:00Z","steps":0,"heart_rate":0}"#,
            #"{"timestamp":"2026-09-02T23:14:00+02:00","heart_rate":null,"steps":7,"calories":2}"#
        )
        let found = try points(text).flatMap(\.record.points)
        #expect(found.map(\.heartRate) == [610, nil])
        #expect(found.map(\.steps) == [70, 0])
        #expect(found.map(\.activeEnergy) == [20, nil])
        #expect(try Sending().outcome("POST", path, text) == #"202 {"accepted":3,"errors":[]}"#)
    }

    @Test(arguments: [
        ("7", "points[0] not_an_object"), ("{}", "points[0].timestamp bad_time"),
        (#"{"timestamp":"2026-09-02T21:14:00Z"}"#, "points[0] no_values"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","heart_rate":0}"#, "points[0] no_values"),
        (#"{"timestamp":"2026-09-02T21:14:00","steps":1}"#, "points[0].timestamp bad_time"),
        (#"{"timestamp":"2019-09-02T21:14:00Z","steps":1}"#, "points[0].timestamp out_of_range"),
        (#"{"timestamp":"2026-09-04T21:14:00Z","steps":1}"#, "points[0].timestamp out_of_range"),
        (
            #"{"timestamp":"2026-09-02T21:14:00Z","timestamp":"2026-09-02T21:14:00Z","steps":1}"#,
            "points[0].timestamp duplicate_key"
        ),
        (#"{"timestamp":"2026-09-02T21:14:00Z","heart_rate":19}"#, "points[0].heart_rate out_of_range"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","heart_rate":301}"#, "points[0].heart_rate out_of_range"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","steps":1.5}"#, "points[0].steps not_whole"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","steps":100001}"#, "points[0].steps out_of_range"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","calories":"x"}"#, "points[0].calories not_a_number"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","calories":20001}"#, "points[0].calories out_of_range"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","data":[]}"#, "points[0].data not_an_object"),
        (#"{"timestamp":"2026-09-02T21:14:00Z","data":{"a":{"b":{"c":{"d":{}}}}}}"#, "points[0].data too_deep"),
    ])
    func `a bad point is told by index and field, and its neighbours are stored`(point: String, expected: String) throws
    {
        #expect(try Sending().outcome("POST", path, body(point)) == "422 invalid \(expected)")
        let good = #"{"timestamp":"2026-09-02T21:14:00Z","steps":1}"#
        let plan = try Sending().send("POST", path, body(point, good)).get()
        #expect(plan.records.count == 1)
        #expect((plan.answer as? PointsAnswer)?.errors.allSatisfy { $0.index == 0 } == true)
        #expect((plan.answer as? PointsAnswer)?.accepted == 1)
    }

    @Test(arguments: [
        ("{}", "400 bad_shape device_id bad_shape"), (#"{"device_id":7}"#, "400 bad_shape device_id bad_shape"),
        (#"{"device_id":"","points":[]}"#, "422 invalid device_id empty"),
        (#"{"device_id":"w"}"#, "400 bad_shape points bad_shape"),
        (#"{"device_id":"w","points":{}}"#, "400 bad_shape points bad_shape"),
        (#"{"device_id":"w","points":[]}"#, "422 invalid points no_points"),
        (#"{"device_id":"w","device_id":"w","points":[]}"#, "422 invalid device_id duplicate_key"),
    ])
    func `what is wrong with the request as a whole is a problem`(text: String, expected: String) throws {
        #expect(try Sending().outcome("POST", path, text) == expected)
    }

    @Test func `limits hold: 5000 points, 128 bytes of device, 4096 bytes of data`() throws {
        let start = Instant(rfc3339: "2026-09-01T00:00:00Z") ?? .earliest
        func many(_ count: Int, data: Int = 0) -> String {
            let more = data == 0 ? "" : #","data":{"x":"\#(String(repeating: "y", count: data - 8))"}"#
            let points = (0..<count).map { #"{"timestamp":"\#(start.advanced(bySeconds: $0))","steps":1\#(more)}"# }
            return #"{"device_id":"w","points":[\#(points.joined(separator: ","))]}"#
        }
        #expect(try Sending().outcome("POST", path, many(5001)) == "422 invalid points too_many_points")
        #expect(try points(many(5000)).count == 1)
        #expect(try Sending().outcome("POST", path, many(1, data: 4097)) == "422 invalid points[0].data too_long")
        let parts = try Sending().send("POST", path, many(1500, data: 4096)).get().records
        #expect(parts.count > 6 && parts.allSatisfy { $0.value.count <= RecordLimits.valueBytes })
        let long = String(repeating: "d", count: 129)
        #expect(
            try Sending().outcome("POST", path, #"{"device_id":"\#(long)","points":[{}]}"#)
                == "422 invalid device_id too_long"
        )
    }
}
