import Authentication
import Domain
import Foundation
import Glibc
import ServiceRuntime

/// Requests as phones send them, ready to go out: many users, each with a token and days of their own up to today.
struct Requests {
    static let secret = "benchmarks-sign-their-tokens-with-this-key"
    static let zone = "Europe/Athens"
    private static let users = 500

    let days: Int
    /// Head and body, of one user each.
    let texts: [[UInt8]]

    init(days: Int) throws {
        self.days = days
        let minter = try TokenMinter(TokenPolicy(hmacKeys: [Array(Self.secret.utf8)]))
        let now = Self.now
        var random = SplitMix64(seed: UInt64(days))
        texts = try (0..<Self.users).map { _ in
            let user = UUID(uuid: random.uuid()).uuidString.lowercased()
            let token = try minter.mint(subject: user, now: now, validFor: 86_400)
            let body = Self.body(days: days, now: now, &random)
            let head = """
                POST /v1/days HTTP/1.1\r
                Host: 127.0.0.1\r
                User-Agent: Benchmark/1\r
                Content-Type: application/json\r
                Authorization: Bearer \(token)\r
                Content-Length: \(body.utf8.count)\r
                \r

                """
            return Array((head + body).utf8)
        }
    }

    static var now: Instant { Instant(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000)) }

    /// Six metrics a day, some with a decimal.
    static func body(days: Int, now: Instant, _ random: inout SplitMix64) -> String {
        let today = now.day(secondsFromUTC: 0)
        let list = (0..<days).map { index in
            let date = today.advanced(by: index - days + 1)
            return """
                {"date":"\(date)","steps":\(random.next(500...20_000)),"active_energy_kcal":\(random.next(50...900)),\
                "basal_energy_kcal":\(random.next(1200...2300)),"sleep_minutes":\(random.next(240...560)),\
                "resting_heart_rate_bpm":\(random.next(45...80)),\
                "hrv_sdnn_ms":\(random.next(20...120)).\(random.next(0...9))}
                """
        }
        return """
            {"source":"apple_health","origin":"","observed_at":"\(now)","time_zone":"\(zone)",\
            "days":[\(list.joined(separator: ","))]}
            """
    }
}

extension SplitMix64 {
    mutating func next(_ range: ClosedRange<Int>) -> Int {
        Int.random(in: range, using: &self)
    }

    mutating func uuid() -> uuid_t {
        var bytes = UUID().uuid
        withUnsafeMutableBytes(of: &bytes) { bytes in
            for index in 0..<16 { bytes[index] = UInt8(truncatingIfNeeded: next()) }
            bytes[6] = bytes[6] & 0x0f | 0x40
            bytes[8] = bytes[8] & 0x3f | 0x80
        }
        return bytes
    }
}
