import Domain
import MessageContract

/// Records as the workers read them from Kafka, whoever wrote them. Lines: schema, key, event id, received-at and the
/// broker's milliseconds (`-` where one is missing), then the value. What can be read keeps to the ledger, and reads the
/// same again when it is written as ingest writes it.
final class RecordsTarget: FuzzTarget {
    private let days: DaysRecordDecoder
    private let accounts: AccountRecordDecoder
    private let devices: DeviceRecordDecoder
    private let points: PointsRecordDecoder

    /// A record as a broker hands it over.
    private struct Record {
        var key: UnsafeRawBufferPointer?
        var value: UnsafeRawBufferPointer?
        var headers = RecordHeaders()
        var appendTime: Instant?
    }

    init() throws {
        days = try DaysRecordDecoder()
        accounts = try AccountRecordDecoder()
        devices = try DeviceRecordDecoder()
        points = try PointsRecordDecoder()
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        var rest = input
        func line() -> UnsafeRawBufferPointer? {
            rest.takeLine().flatMap { $0.elementsEqual("-".utf8) ? nil : $0 }
        }
        var record = Record()
        record.headers.schema = line()
        record.key = line()
        record.headers.eventID = line()
        record.headers.receivedAt = line()
        let milliseconds = line().flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
        record.appendTime = milliseconds.flatMap { milliseconds in
            let (microseconds, overflow) = milliseconds.multipliedReportingOverflow(by: 1000)
            return overflow ? nil : Instant(microseconds: microseconds)
        }
        record.value = rest
        switch record.headers.schema.flatMap({ Schema(id: $0) }) {
        case .days1, nil: try readDays(record)
        case .account1: try readAccount(record)
        case .device1: try readDevice(record)
        case .points1: try readPoints(record)
        case .heartbeat1: try readHeartbeat(record)
        }
    }

    // MARK: What each schema promises

    private func decodeDays(_ record: Record) -> Result<DecodedDays, PoisonReason> {
        days.decode(key: record.key, value: record.value, headers: record.headers, appendTime: record.appendTime)
    }

    private func readDays(_ record: Record) throws {
        guard case .success(let read) = decodeDays(record) else { return }
        try check(read.readings.count <= RecordLimits.days, "more days than a record may have")
        try check(read.origin.utf8.count <= RecordLimits.originBytes, "an origin is too long")
        let bounds = MetricBounds.all()
        for reading in read.readings {
            try check(reading.version == read.version, "a reading has another version than its record")
            try check(reading.closed == (reading.day < read.localDate), "closed is not what the dates say")
            for metric in Metric.allCases {
                guard let tenths = reading.values[metric] else { continue }
                let limits = bounds[metric.index]
                try check((limits.lowest...limits.highest).contains(tenths), "a value is outside its range")
                try check(!limits.isWhole || tenths % 10 == 0, "a count has a fraction")
                try check(tenths != 0 || !limits.zeroIsNeverRead, "a zero counts that is never read")
            }
        }
        // Versions end in 2091: they don't give back the instant of what claims to be later.
        guard read.receivedAt.microseconds - Instant.earliest.microseconds < 1 << 51 else { return }
        let written = DaysRecord(
            source: read.source,
            origin: read.origin,
            observedAt: read.version.instant,
            timeZone: "UTC",
            localDate: read.localDate,
            days: read.readings.map { DaysRecord.Day(date: $0.day, values: $0.values) }
        )
        try expectSame(record, written.encoded(), .success(read), decodeDays)
    }

    private func decodeAccount(_ record: Record) -> Result<DecodedAccount, PoisonReason> {
        accounts.decode(key: record.key, value: record.value, headers: record.headers, appendTime: record.appendTime)
    }

    private func readAccount(_ record: Record) throws {
        guard case .success(let read) = decodeAccount(record) else { return }
        try expectSame(record, read.record.encoded(), .success(read), decodeAccount)
    }

    private func decodeDevice(_ record: Record) -> Result<DecodedDevice, PoisonReason> {
        devices.decode(key: record.key, value: record.value, headers: record.headers, appendTime: record.appendTime)
    }

    private func readDevice(_ record: Record) throws {
        guard case .success(let read) = decodeDevice(record) else { return }
        try expectSame(record, read.record.encoded(), .success(read), decodeDevice)
    }

    private func decodePoints(_ record: Record) -> Result<DecodedPoints, PoisonReason> {
        points.decode(key: record.key, value: record.value, headers: record.headers, appendTime: record.appendTime)
    }

    private func readPoints(_ record: Record) throws {
        guard case .success(let read) = decodePoints(record) else { return }
        try check(read.record.points.count <= RecordLimits.points, "more points than a record may have")
        try expectSame(record, read.record.encoded(), .success(read), decodePoints)
    }

    private func readHeartbeat(_ record: Record) throws {
        func decode(_ record: Record) -> Result<DecodedHeartbeat, PoisonReason> {
            DecodedHeartbeat.decode(value: record.value, headers: record.headers, appendTime: record.appendTime)
        }
        guard case .success(let read) = decode(record) else { return }
        try check((0...read.counts.requests).contains(read.counts.answered), "more answers than requests")
        try expectSame(record, read.counts.encoded(), .success(read), decode)
    }

    private func expectSame<Decoded: Equatable>(
        _ record: Record,
        _ value: [UInt8],
        _ read: Result<Decoded, PoisonReason>,
        _ decode: (Record) -> Result<Decoded, PoisonReason>
    ) throws {
        try value.withUnsafeBytes { value in
            var again = record
            again.value = value
            try check(decode(again) == read, "what was read and is written again reads otherwise")
        }
    }
}
