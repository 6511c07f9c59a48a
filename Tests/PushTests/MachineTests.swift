import Domain
import Foundation
import HTTP2
import JSON
import ServiceRuntime
import Testing

@testable import Push

/// The pure parts, by property.
@Suite struct MachineTests {
    private static func bad(_ id: Int) -> PushDeactivation {
        PushDeactivation(id: UInt64(id), token: PushToken("t\(id)"), reason: .badDeviceToken, asOf: Scene.now)
    }

    @Test(arguments: UInt64(1)...200)
    func `the breaker decides as a naive count of the last hour does, and releases each held one once`(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        var breaker = DeactivationBreaker()
        var history: [(minute: Int64, isBad: Bool)] = []
        var held: [UInt64] = []
        var now: Int64 = Int64.random(in: 0...10_000_000_000_000, using: &generator)
        let badShare = Int.random(in: 0...40, using: &generator)
        let pace = Int64.random(in: 0...400, using: &generator)
        for id in 0..<500 {
            now += Int64.random(in: 0...pace, using: &generator) * 1_000_000_000
            let isBad = Int.random(in: 0..<100, using: &generator) < badShare
            history.append((now / 60_000_000_000, isBad))
            if isBad { held.append(UInt64(id)) }
            let window = history.filter { $0.minute > now / 60_000_000_000 - 60 }
            let decision = breaker.answered(isBad ? Self.bad(id) : nil, now: now)
            if window.count < 20 {
                #expect(decision == .wait)
            } else if window.count(where: \.isBad) * 5 > window.count {
                #expect(decision == .trip)
                #expect(breaker.answered(Self.bad(id), now: now) == .dropped)
                #expect(breaker.answered(nil, now: now + 7_200_000_000_000) == .dropped)
                return
            } else {
                guard case .release(let released) = decision else {
                    Issue.record("no release")
                    return
                }
                #expect(released.map(\.id) == held)
                held = []
            }
        }
    }

    @Test func `20 answers with four bad ones release, with five they trip`() {
        var four = DeactivationBreaker()
        for id in 0..<19 { #expect(four.answered(id < 4 ? Self.bad(id) : nil, now: 0) == .wait) }
        #expect(four.answered(nil, now: 0) == .release((0..<4).map(Self.bad)))
        var five = DeactivationBreaker()
        for id in 0..<19 { #expect(five.answered(id < 5 ? Self.bad(id) : nil, now: 0) == .wait) }
        #expect(five.answered(nil, now: 0) == .trip)
    }

    @Test func `what is held longer than an hour waits on, and answers of that time don't count`() {
        var breaker = DeactivationBreaker()
        #expect(breaker.answered(Self.bad(1), now: 0) == .wait)
        let later: Int64 = 2 * 3600 * 1_000_000_000
        for _ in 0..<19 { #expect(breaker.answered(nil, now: later) == .wait) }
        #expect(breaker.answered(nil, now: later) == .release([Self.bad(1)]))
    }

    @Test(arguments: UInt64(1)...200)
    func `a connection never gives room beyond one before a success, nor beyond the limit, nor after it leaves`(
        seed: UInt64
    ) {
        var generator = SplitMix64(seed: seed)
        var machine = ConnectionStateMachine()
        var hasOpened = false
        var hasSucceeded = false
        var hasLeft = false
        var inFlight = 0
        for _ in 0..<300 {
            let limit = Int.random(in: 0...10, using: &generator)
            let room = machine.room(limit: limit, inFlight: inFlight)
            #expect(room >= 0)
            if !hasOpened || hasLeft { #expect(room == 0) }
            if !hasSucceeded { #expect(inFlight + room <= max(1, inFlight)) }
            #expect(room == 0 || inFlight + room <= limit)
            #expect(machine.isCurrent == !hasLeft)
            switch Int.random(in: 0..<20, using: &generator) {
            case 0...8: inFlight += min(room, Int.random(in: 0...3, using: &generator))
            case 9...15:
                guard inFlight > 0 else { continue }
                inFlight -= 1
                let isSuccess = Bool.random(using: &generator)
                machine.answered(isSuccess: isSuccess)
                #expect(machine.isProven)
                if isSuccess, !hasLeft { hasSucceeded = true }
            case 16, 17:
                machine.opened()
                if !hasLeft { hasOpened = true }
            case 18:
                #expect(machine.drain() == !hasLeft)
                hasLeft = true
            default:
                guard Int.random(in: 0..<10, using: &generator) == 0 else { continue }
                machine.closed()
                hasLeft = true
            }
        }
    }

    @Test(arguments: UInt64(1)...100)
    func `retries are bounded, whatever comes in whatever order, and never sooner than the server asks`(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        for policy in [RetryPolicy.apns, .fcm] {
            var attempts = Attempts()
            var tries = 1
            while tries < 100 {
                let asked: Duration? =
                    Bool.random(using: &generator)
                    ? .milliseconds(Int.random(in: 0...60_000, using: &generator)) : nil
                let next: RetryPolicy.Next
                switch Int.random(in: 0..<3, using: &generator) {
                case 0:
                    next = policy.afterRefusal(&attempts, retryAfter: asked, using: &generator)
                    if let asked, case .again(let wait) = next { #expect(wait >= asked && wait <= policy.longestWait) }
                case 1: next = policy.afterLoss(&attempts)
                default: next = policy.afterIdle(&attempts)
                }
                guard case .again = next else { break }
                tries += 1
            }
            #expect(tries <= 1 + 2 + 2 + 1)
        }
    }

    @Test(arguments: UInt64(1)...50)
    func `reconnecting backs off up to a minute with jitter, and begins anew after an answer`(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        var schedule = ReconnectSchedule()
        #expect(schedule.mayConnect(now: 0))
        var now: Int64 = 0
        for failure in 1...50 {
            schedule.failed(now: now, using: &generator)
            let wait = schedule.notBefore - now
            let full = min(60, 1 << min(failure - 1, 10))
            #expect(wait >= Int64(full) * 500_000_000 && wait <= Int64(full) * 1_000_000_000)
            #expect(!schedule.mayConnect(now: now) && schedule.mayConnect(now: schedule.notBefore))
            now = schedule.notBefore
        }
        schedule.worked()
        #expect(schedule.failures == 0 && schedule.mayConnect(now: 0))
        schedule.failed(now: .max - 1, using: &generator)
        #expect(schedule.notBefore == .max)
    }

    @Test(arguments: [
        ("120", Duration.seconds(120) as Duration?), ("0", .zero), ("99999999999999999999", .seconds(86_400)),
        ("Thu, 01 Jan 2026 00:00:30 GMT", .seconds(30)), ("Wed, 31 Dec 2025 00:00:00 GMT", .zero),
        ("Fri, 01 Jan 2027 00:00:00 GMT", .seconds(86_400)), ("", nil), ("-5", nil), ("1.5", nil), ("soon", nil),
        ("Thu, 99 Jan 2026 00:00:30 GMT", nil), ("Thu, 01 Foo 2026 00:00:30 GMT", nil), ("x x x x x GMT", nil),
    ])
    func `Retry-After is read as seconds or as a date, and never trusted beyond a day`(
        text: String,
        expected: Duration?
    ) {
        #expect(RetryAfter.parse(Array(text.utf8), now: Scene.now) == expected)
    }

    /// D12: replies that a mutation made of good ones.
    @Test(arguments: UInt64(1)...40)
    func `no reply traps, whatever its status and bytes`(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let parser = try JSONParser(maximumDepth: 8)
        let bodies = [
            #"{"reason":"BadDeviceToken"}"#, #"{"reason":"Unregistered","timestamp":1454948015990}"#,
            #"{"reason":"ExpiredToken","timestamp":9223372036854775807}"#,
            #"{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[{"@type":"#
                + #""type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}"#,
            #"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","#
                + #""fieldViolations":[{"field":"message.token"}]}]}}"#,
        ].map { Array($0.utf8) }
        for _ in 0..<2000 {
            var body = bodies[Int.random(in: 0..<bodies.count, using: &generator)]
            for _ in 0..<Int.random(in: 0...6, using: &generator) where !body.isEmpty {
                let place = Int.random(in: 0..<body.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: body[place] = UInt8.random(in: 0...255, using: &generator)
                case 1: body.remove(at: place)
                case 2: body.insert(UInt8.random(in: 0...255, using: &generator), at: place)
                default: body.removeLast(body.count - place)
                }
            }
            let status = Int.random(in: -1...1000, using: &generator)
            let apns = APNsReply(status: status, body: body, parser).verdict
            let fcm = FCMReply(status: status, body: body, parser).verdict
            for verdict in [apns, fcm] where verdict == .accepted { #expect((200..<300).contains(status)) }
            if !(100..<600).contains(status) { #expect(apns == .unclear && fcm == .unclear) }
            _ = AccessToken(body)
            _ = RetryAfter.parse(body, now: Scene.now)
            _ = try? ServiceAccount(json: body, tokenURL: nil)
        }
    }

    @Test func `an access token that can't be a header's value is refused`() {
        #expect(AccessToken(Array(#"{"access_token":"ya29.x","expires_in":3599}"#.utf8))?.text == "ya29.x")
        for text in [
            #"{"access_token":"a\r\nb","expires_in":3599}"#, #"{"access_token":"","expires_in":3599}"#,
            #"{"access_token":"a"}"#, "{}", "",
        ] {
            #expect(AccessToken(Array(text.utf8)) == nil)
        }
    }

    @Test func `alarms say what to do and hold no token`() {
        for code in PushAlarm.Code.allCases {
            let text = PushAlarm(code, lane: .production, topic: "app.example.days", stops: true).description
            #expect(text.hasPrefix("apns_production, topic app.example.days: ") && text.count > 60)
        }
    }
}
