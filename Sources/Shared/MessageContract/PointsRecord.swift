public import Domain
public import JSON

/// A part of a wearable's time series: a record of `points/1`, keyed by user.
///
/// A request becomes as many parts as its size asks for; all have its event id. A point's fields are registers under
/// (user, device, time): what is seen again replaces, field by field.
public struct PointsRecord: Hashable, Sendable {
    public struct Point: Hashable, Sendable {
        public var time: Instant
        /// In tenths of a beat a minute.
        public var heartRate: Int32?
        /// In tenths, as all metrics; always whole.
        public var steps: Int32?
        /// Active energy, in tenths of a kilocalorie.
        public var activeEnergy: Int32?
        /// A JSON object, compact.
        public var data: [UInt8]?

        public init(
            time: Instant,
            heartRate: Int32? = nil,
            steps: Int32? = nil,
            activeEnergy: Int32? = nil,
            data: [UInt8]? = nil
        ) {
            self.time = time
            self.heartRate = heartRate
            self.steps = steps
            self.activeEnergy = activeEnergy
            self.data = data
        }

        public var isEmpty: Bool { heartRate == nil && steps == nil && activeEnergy == nil && data == nil }

        /// Takes what a later point of the same time says.
        public mutating func replace(with later: Point) {
            heartRate = later.heartRate ?? heartRate
            steps = later.steps ?? steps
            activeEnergy = later.activeEnergy ?? activeEnergy
            data = later.data ?? data
        }

        func encode(into writer: inout JSONWriter) {
            writer.beginObject()
            writer.key("timestamp")
            writer.string(appending: time.append(to:))
            if let heartRate {
                writer.key("heart_rate_bpm")
                writer.tenths(heartRate)
            }
            if let steps {
                writer.key("steps")
                writer.tenths(steps)
            }
            if let activeEnergy {
                writer.key("active_energy_kcal")
                writer.tenths(activeEnergy)
            }
            if let data {
                writer.key("data")
                writer.raw(data)
            }
            writer.endObject()
        }
    }

    public var deviceID: String
    /// The IANA name of the zone that ingest resolved, for whoever derives days.
    public var timeZone: String
    /// From 0.
    public var part: Int
    public var parts: Int
    /// Each time once.
    public var points: [Point]

    public init(deviceID: String, timeZone: String, part: Int = 0, parts: Int = 1, points: [Point]) {
        self.deviceID = deviceID
        self.timeZone = timeZone
        self.part = part
        self.parts = parts
        self.points = points
    }

    /// The record's value, as JSON that an operator can read.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reserving: 256 + points.count * 96)
        writer.beginObject()
        writer.key("device_id")
        writer.string(deviceID)
        writer.key("time_zone")
        writer.string(timeZone)
        writer.key("part")
        writer.integer(part)
        writer.key("parts")
        writer.integer(parts)
        writer.key("points")
        writer.beginArray()
        for point in points { point.encode(into: &writer) }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Splits points over records, in their order, none of whose values is longer than `limit` bytes; a point alone must
    /// fit.
    public static func split(
        deviceID: String,
        timeZone: String,
        points: [Point],
        limit: Int = RecordLimits.valueBytes
    ) -> [PointsRecord] {
        let room =
            limit
            - PointsRecord(deviceID: deviceID, timeZone: timeZone, part: 9999, parts: 9999, points: [])
            .encoded().count
        var groups: [[Point]] = []
        var used = 0
        var writer = JSONWriter(reserving: 8192)
        for point in points {
            writer.reset()
            point.encode(into: &writer)
            let size = writer.count + 1
            if groups.isEmpty || used + size > room {
                groups.append([])
                used = 0
            }
            groups[groups.count - 1].append(point)
            used += size
        }
        return groups.enumerated().map { part, points in
            PointsRecord(deviceID: deviceID, timeZone: timeZone, part: part, parts: groups.count, points: points)
        }
    }
}

/// One record of points, ready to be applied.
public struct DecodedPoints: Hashable, Sendable {
    public let user: UserID
    public let record: PointsRecord
    public let envelope: Envelope

    public init(user: UserID, record: PointsRecord, envelope: Envelope) {
        self.user = user
        self.record = record
        self.envelope = envelope
    }

    /// The version of every field in it.
    public var version: Version { envelope.version }
}

/// Reads records of `points/1`. One decoder belongs to one thread.
public final class PointsRecordDecoder {
    private let parser: JSONParser
    private let bounds = PointBounds()

    /// - Throws: `outOfMemory`.
    public init() throws(JSONError) {
        // Record, points, point, then the data's own levels.
        parser = try JSONParser(maximumDepth: 3 + RecordLimits.pointDataDepth + 1)
    }

    /// Checks and reads a record, as `DaysRecordDecoder.decode` does.
    public func decode(
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?
    ) -> Result<DecodedPoints, PoisonReason> {
        RecordMembers.decode(
            (key, value, headers, appendTime),
            schema: .points1,
            limit: 2 * RecordLimits.valueBytes,
            parser: parser
        ) { (user: UserID, envelope, members) throws(PoisonReason) in
            DecodedPoints(user: user, record: try read(members, envelope), envelope: envelope)
        }
    }

    private func read(_ members: RecordMembers, _ envelope: Envelope) throws(PoisonReason) -> PointsRecord {
        guard let device = try members.string("device_id", longest: RecordLimits.deviceIDBytes), !device.isEmpty,
            let zone = try members.string("time_zone", longest: RecordLimits.zoneBytes),
            var values = try members.value("points")?.array
        else { throw .badShape }
        let part = try members.value("part")?.integer ?? 0
        let parts = try members.value("parts")?.integer ?? 1
        guard (1...Int64(RecordLimits.points)).contains(parts), (0..<parts).contains(part) else { throw .badShape }
        guard values.count(upTo: RecordLimits.points + 1) <= RecordLimits.points else { throw .tooLarge }
        var points: [PointsRecord.Point] = []
        while let value = values.next() { points.append(try readPoint(value, envelope)) }
        return PointsRecord(deviceID: device, timeZone: zone, part: Int(part), parts: Int(parts), points: points)
    }

    private func readPoint(_ value: JSONValue, _ envelope: Envelope) throws(PoisonReason) -> PointsRecord.Point {
        guard let object = value.object else { throw .badShape }
        let members = RecordMembers(object)
        guard let text = try members.text("timestamp"), let time = Instant(rfc3339: text.span), time >= .earliest,
            time <= envelope.receivedAt.advanced(bySeconds: PointBounds.aheadSeconds)
        else { throw .badTimestamp }
        var point = PointsRecord.Point(time: time)
        point.heartRate = try read(members.value("heart_rate_bpm"), bounds.heartRate)
        point.steps = try read(members.value("steps"), bounds.steps)
        point.activeEnergy = try read(members.value("active_energy_kcal"), bounds.activeEnergy)
        if let data = try members.value("data") {
            guard data.object != nil, data.isNested(atMost: RecordLimits.pointDataDepth) else { throw .badShape }
            var writer = JSONWriter()
            writer.value(data)
            guard writer.count <= RecordLimits.pointDataBytes else { throw .tooLarge }
            point.data = writer.bytes
        }
        return point
    }

    private func read(_ value: JSONValue?, _ bounds: MetricBounds) throws(PoisonReason) -> Int32? {
        guard let value else { return nil }
        switch MetricNumber.read(value, bounds: bounds) {
        case .tenths(let tenths): return tenths == 0 && bounds.zeroIsNeverRead ? nil : tenths
        case .failure(.outOfRange): throw .outOfRange
        case .failure: throw .badValue
        }
    }
}

/// What the numbers of a point are checked against, out of the ledger.
public struct PointBounds: Sendable {
    public let heartRate: MetricBounds
    public let steps: MetricBounds
    public let activeEnergy: MetricBounds

    /// A point may be this far ahead of its arrival: phones' clocks are wrong.
    public static let aheadSeconds = 86_400

    public init() {
        let all = MetricBounds.all()
        heartRate = all[Metric.averageHeartRate.index]
        steps = all[Metric.steps.index]
        activeEnergy = all[Metric.activeEnergy.index]
    }
}
