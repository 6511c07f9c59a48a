import Domain
import Testing

@testable import Storage

@Suite struct `What the tables hold` {
    private func version(_ minute: Int) -> Version {
        let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minute * 60)
        return Version(observedAt: nil, receivedAt: received, event: EventID(high: 0, low: 0))
    }

    @Test func `a row of one version stores no exceptions, one of several stores the rarer`() {
        var row = SourceDay()
        for metric in [Metric.steps, .distance, .water] {
            row.restore(metric, tenths: 10, closed: false, version: version(1))
        }
        var bytes: [UInt8] = []
        #expect(VersionsCodec.common(of: row) == version(1).rawValue)
        #expect(!VersionsCodec.appendExceptions(of: row, common: version(1).rawValue, to: &bytes) && bytes.isEmpty)
        row.restore(.distance, tenths: 10, closed: false, version: version(7))
        let common = VersionsCodec.common(of: row)
        #expect(common == version(1).rawValue)
        #expect(VersionsCodec.appendExceptions(of: row, common: common, to: &bytes))
        let read = VersionsCodec.exceptions(in: bytes.span) ?? []
        #expect(read.map(\.metric) == [.distance] && read.map(\.version) == [version(7).rawValue])
        #expect(VersionsCodec.common(of: SourceDay()) == 0)
    }

    @Test func `versions and preferences that nobody wrote are refused`() {
        for bytes: [UInt8] in [[1], Array(repeating: 0, count: 8), [99] + Array(repeating: 0, count: 8)] {
            #expect(VersionsCodec.exceptions(in: bytes.span) == nil)
        }
        for bytes: [UInt8] in [[1], [99, 1] + Array(repeating: 0, count: 8), [0, 99] + Array(repeating: 0, count: 8)] {
            #expect(PreferencesCodec.decode(bytes.span) == nil)
        }
    }

    @Test func `pins and unpins come back`() {
        let preferences = Preferences(pins: [
            .init(metric: .water, source: .garmin, version: version(3)),
            .init(metric: .steps, source: nil, version: version(2)),
        ])
        let bytes = PreferencesCodec.encode(preferences)
        #expect(bytes.count == 2 * PreferencesCodec.bytesAPin)
        #expect(PreferencesCodec.decode(bytes.span) == preferences)
    }

    @Test func `every tenth up to 500,000 survives four bytes, and what no reading can be does not`() {
        for tenths in stride(from: Int32(0), through: 5_000_000, by: 1)
        where MetricColumns.tenths(real: MetricColumns.real(tenths: tenths)) != tenths {
            Issue.record("\(tenths) does not come back")
            break
        }
        for impossible: Float in [.nan, .infinity, -.infinity, 1e30] {
            #expect(MetricColumns.tenths(real: impossible) == nil)
        }
    }
}
