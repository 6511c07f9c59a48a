import Domain
import JSON
import MessageContract
import Testing

private let user = UserID(high: 0x0123_4567_89ab_4def, low: 0x8123_4567_89ab_cdef)

private func decode(_ value: [UInt8]) throws -> Result<DecodedPoints, PoisonReason> {
    let decoder = try PointsRecordDecoder()
    var raw = AnyRecord("", schema: "points/1")
    raw.value = value
    return raw.decode { decoder.decode(key: $0, value: $1, headers: $2, appendTime: $3) }
}

private func decode(point: String) throws -> Result<DecodedPoints, PoisonReason> {
    try decode(Array(#"{"device_id":"w","time_zone":"UTC","points":[\#(point)]}"#.utf8))
}

/// Any point, from a generator with a seed.
private func anyPoint(_ state: inout UInt64, second: Int) -> PointsRecord.Point {
    func next(_ bound: UInt64) -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state >> 33) % bound
    }
    let start = Instant(rfc3339: "2026-09-01T00:00:00.000001Z") ?? .earliest
    var point = PointsRecord.Point(time: start.advanced(bySeconds: second))
    if next(2) == 0 { point.heartRate = 200 + Int32(next(2801)) }
    if next(2) == 0 { point.steps = Int32(next(100_001)) * 10 }
    if next(2) == 0 { point.activeEnergy = Int32(next(200_001)) }
    if next(3) == 0 {
        let texts = [
            "{}", #"{"a":[1,-2,18446744073709551615,0.5,1e+30,true,false,null]}"#,
            #"{"tag":"\"é\\\u007f","deep":{"er":[{}]}}"#,
        ]
        point.data = Array(texts[Int(next(3))].utf8)
    }
    return point
}

struct PointsRecordTests {
    @Test func `what is encoded decodes to the same, for any points`() throws {
        var state: UInt64 = 7
        for count in [0, 1, 2, 50, 400] {
            let points = (0..<count).map { anyPoint(&state, second: $0) }
            let record = PointsRecord(
                deviceID: "watch \"7\"",
                timeZone: "Europe/Athens",
                part: 1,
                parts: 3,
                points: points
            )
            let decoded = try decode(record.encoded()).get()
            #expect(decoded.record == record)
            #expect(decoded.user == user)
        }
    }

    @Test func `a split keeps every point, in order, and each part inside the limit`() throws {
        var state: UInt64 = 11
        let points = (0..<500).map { anyPoint(&state, second: $0) }
        for limit in [400, 1000, 20_000, RecordLimits.valueBytes] {
            let parts = PointsRecord.split(deviceID: "w", timeZone: "UTC", points: points, limit: limit)
            #expect(parts.flatMap(\.points) == points)
            #expect(parts.map(\.part) == Array(0..<parts.count))
            #expect(parts.allSatisfy { $0.parts == parts.count && $0.encoded().count <= limit })
        }
        #expect(PointsRecord.split(deviceID: "w", timeZone: "UTC", points: points).count == 1)
    }

    @Test func `five thousand points with all their data are a few parts`() throws {
        let data = Array(#"{"x":"\#(String(repeating: "y", count: RecordLimits.pointDataBytes - 8))"}"#.utf8)
        let start = Instant(rfc3339: "2026-09-01T00:00:00Z") ?? .earliest
        let points = (0..<5000).map { PointsRecord.Point(time: start.advanced(bySeconds: $0), data: data) }
        let parts = PointsRecord.split(deviceID: "w", timeZone: "UTC", points: points)
        #expect(parts.count > 1)
        for part in parts {
            let value = part.encoded()
            #expect(value.count <= RecordLimits.valueBytes)
            #expect(try decode(value).get().record == part)
        }
    }

    @Test func `a later point of the same time replaces field by field`() {
        var point = PointsRecord.Point(time: .earliest, heartRate: 600, steps: 10)
        point.replace(with: .init(time: .earliest, steps: 20, activeEnergy: 5))
        #expect(point == .init(time: .earliest, heartRate: 600, steps: 20, activeEnergy: 5))
    }

    @Test(arguments: [
        ("7", PoisonReason.badShape), ("{}", .badTimestamp), (#"{"timestamp":"2026-09-01"}"#, .badTimestamp),
        (#"{"timestamp":"2019-09-01T00:00:00Z"}"#, .badTimestamp),
        (#"{"timestamp":"2026-09-04T00:00:00Z"}"#, .badTimestamp),
        (#"{"timestamp":"2026-09-01T00:00:00Z","steps":-1}"#, .outOfRange),
        (#"{"timestamp":"2026-09-01T00:00:00Z","steps":1.5}"#, .badValue),
        (#"{"timestamp":"2026-09-01T00:00:00Z","steps":1,"steps":1}"#, .duplicateKey),
        (#"{"timestamp":"2026-09-01T00:00:00Z","heart_rate_bpm":19}"#, .outOfRange),
        (#"{"timestamp":"2026-09-01T00:00:00Z","data":[]}"#, .badShape),
        (#"{"timestamp":"2026-09-01T00:00:00Z","data":{"a":{"b":{"c":{"d":{}}}}}}"#, .badShape),
    ])
    func `a bad point makes its record poison`(point: String, reason: PoisonReason) throws {
        #expect(try decode(point: point) == .failure(reason))
    }

    @Test(arguments: [
        ("{}", PoisonReason.badShape), (#"{"device_id":"","time_zone":"UTC","points":[]}"#, .badShape),
        (#"{"device_id":"w","time_zone":"UTC","part":1,"parts":1,"points":[]}"#, .badShape),
        (#"{"device_id":"w","time_zone":"UTC","points":{}}"#, .badShape), ("x", .badJSON),
    ])
    func `a bad record of points is poison`(text: String, reason: PoisonReason) throws {
        #expect(try decode(Array(text.utf8)) == .failure(reason))
    }
}
