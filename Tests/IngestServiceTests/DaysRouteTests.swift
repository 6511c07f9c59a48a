import Authentication
import Domain
import MessageContract
import Testing

@testable import IngestService

private let user = UserID(high: 1, low: 2)
private let other = UserID(high: 3, low: 4)

private struct Accepted {
    var user: UserID?
    var records: [(lane: Lane?, value: [UInt8])]
    var answer: DaysAnswer
}

private func handle(
    _ body: String,
    role: Role = .user,
    token: String? = nil,
    strict: Bool = false,
    target: UserID? = nil
) throws -> Result<Accepted, RequestProblem> {
    let path = target.map { "/v1/users/\($0)/days" } ?? "/v1/days"
    let sent = Sending(user: user, role: role, token: token, fallbackZone: "UTC")
    return try sent.send("POST", path + (strict ? "?strict=true" : ""), body).map { plan in
        let answer = plan.answer as? DaysAnswer
        #expect(answer != nil)
        return Accepted(
            user: plan.records.first.flatMap { UserID(String(decoding: $0.key, as: UTF8.self)) },
            records: plan.records.map { record in
                (Lane.allCases.first { $0.topic == record.topic }, record.value)
            },
            answer: answer ?? DaysAnswer(emptyRequest, event: event)
        )
    }
}

private func body(_ source: String, _ days: String...) -> String {
    #"{"source":"\#(source)","days":[\#(days.joined(separator: ","))]}"#
}

private let good = #"{"date":"2026-09-02","steps":11842}"#
private let bad = #"{"date":"2026-09-01","steps":-5}"#
private let old = #"{"date":"2026-01-01","steps":5}"#

struct DaysRouteTests {
    @Test func `fourteen good days and one bad: fourteen are stored, one is told`() throws {
        var days = (0..<14).map {
            #"{"date":"\#(CalendarDay(daysSinceEpoch: 20_697).advanced(by: -$0))","steps":\#($0 + 1)}"#
        }
        days.insert(#"{"date":"2026-07-01","steps":-5}"#, at: 3)
        let accepted = try handle(#"{"source":"apple_health","days":[\#(days.joined(separator: ","))]}"#).get()
        #expect(accepted.answer.accepted == 14)
        #expect(accepted.user == user)
        #expect(accepted.records.map(\.lane) == [.live])
        let text = String(
            decoding: accepted.answer.body(positions: [.init(topic: "t", partition: 3, offset: 42)]),
            as: UTF8.self
        )
        let expected =
            #"{"accepted":14,"skipped":[],"errors":[{"index":3,"field":"days[3].steps","code":"out_of_range","#
            + #""message":"Send a number inside the range that the interface's description gives."}],"#
            + #""event_id":"01990000-0000-7abc-8000-000000000123","position":"dC8zLzQy"}"#
        #expect(text == expected)
    }

    @Test func `all bad, or one bad in a strict request, stores nothing`() throws {
        guard case .failure(let problem) = try handle(body("manual", bad)) else {
            Issue.record("accepted")
            return
        }
        #expect(problem.status == 422 && problem.errors.count == 1)
        #expect(
            String(decoding: problem.members, as: UTF8.self).hasPrefix(#""errors":[{"index":0,"field":"days[0].steps""#)
        )
        guard case .failure(let strict) = try handle(body("manual", good, bad), strict: true) else {
            Issue.record("accepted")
            return
        }
        #expect(strict.status == 422 && strict.errors.map(\.index) == [1])
        #expect(try handle(body("manual", good), strict: true).get().answer.accepted == 1)
    }

    @Test(arguments: [
        ("apple_health", Role.user, false, true), ("health_connect", .user, false, true),
        ("manual", .user, false, true),
        ("checkin", .user, false, true), ("oura", .user, false, false), ("garmin", .user, false, false),
        ("oura", .connector, true, true), ("whoop", .connector, true, true), ("apple_health", .connector, true, false),
        ("manual", .connector, true, false), ("oura", .connector, false, false), ("apple_health", .user, true, false),
        ("apple_health", .operator, false, false), ("oura", .operator, true, false),
    ])
    func `each role writes its own sources`(source: String, role: Role, forOther: Bool, allowed: Bool) throws {
        switch try handle(body(source, good), role: role, target: forOther ? other : nil) {
        case .success(let accepted):
            #expect(allowed)
            #expect(accepted.user == (forOther ? other : user))
        case .failure(let problem):
            #expect(!allowed)
            #expect(problem.status == 403)
        }
    }

    @Test func `without a good token nothing is read`() throws {
        guard case .failure(let problem) = try handle("not even JSON", token: "x.y.z") else {
            Issue.record("accepted")
            return
        }
        #expect(problem.status == 401 && problem.code == "malformed")
    }

    @Test func `old days go to the history lane, and a phone always leaves a sign in the live one`() throws {
        #expect(try handle(body("apple_health", good, old)).get().records.map(\.lane) == [.live, .history])
        #expect(try handle(body("manual", old)).get().records.map(\.lane) == [.history])
        let phone = try handle(body("apple_health", old)).get()
        #expect(phone.records.map(\.lane) == [.live, .history])
        #expect(String(decoding: phone.records[0].value, as: UTF8.self).hasSuffix(#""days":[]}"#))
    }

    @Test func `a phone whose days are all skipped proves itself awake, unless all dates were refused`() throws {
        let zero = #"{"date":"2026-09-02","steps":0}"#
        let future = #"{"date":"2041-03-02","steps":5}"#
        let ancient = #"{"date":"2011-03-02","steps":5}"#
        #expect(try handle(body("apple_health", zero)).get().records.map(\.lane) == [.live])
        #expect(try handle(body("apple_health", zero, future, bad)).get().records.map(\.lane) == [.live])
        #expect(try handle(body("apple_health", future, ancient)).get().records.isEmpty)
        #expect(try handle(body("manual", zero)).get().records.isEmpty)
        #expect(try handle(body("apple_health", future)).get().answer.accepted == 0)
    }

    @Test func `the record holds what was accepted, in its own zone`() throws {
        let text =
            #"{"source":"apple_health","observed_at":"2026-09-02T20:30:00Z","time_zone":"Europe/Athens","days":[\#(good)]}"#
        let accepted = try handle(text).get()
        let expected = DaysRecord(
            source: .appleHealth,
            observedAt: Instant(rfc3339: "2026-09-02T20:30:00Z"),
            timeZone: "Europe/Athens",
            localDate: CalendarDay(daysSinceEpoch: 20_698),
            days: [.init(date: CalendarDay(daysSinceEpoch: 20_698), values: [.steps: 118_420])]
        )
        #expect(accepted.records.map(\.value) == [expected.encoded()])
    }

    @Test func `A13: a reinstall that pushes thirty days says nothing of any other`() throws {
        let today = try #require(CalendarDay("2026-09-02"))
        func push(_ count: Int) throws -> [Reading] {
            let days = (0..<count).map { #"{"date":"\#(today.advanced(by: -$0))","steps":\#(1000 + $0)}"# }
            let text = #"{"source":"apple_health","days":[\#(days.joined(separator: ","))]}"#
            return try Sending(user: user, fallbackZone: "UTC").days("/v1/days", text).flatMap(\.readings)
        }
        let year = try push(365)
        let month = try push(30)
        #expect(year.count == 365)
        #expect(Set(month.map(\.day)) == Set((0..<30).map { today.advanced(by: -$0) }))
    }
}
