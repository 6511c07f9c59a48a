import Foundation
import Observability
import Testing

@testable import Daybook

struct MetricsTableTests {
    @Test func `the committed documentation is the generated one`() throws {
        #expect(
            try DocumentsTests.text("docs/METRICS.md") == MetricsTable.render(.markdown),
            "run `Scripts/daybook metrics --format markdown > docs/METRICS.md`"
        )
    }

    @Test(arguments: MetricsTable.Style.allCases)
    func `every style names every metric with its labels, and each stands once`(style: MetricsTable.Style) {
        let table = MetricsTable.render(style)
        let metrics = MetricsTable.groups.flatMap(\.metrics)
        #expect(Set(metrics.map(\.name)).count == metrics.count)
        for metric in metrics {
            let lines = table.split(separator: "\n").filter { $0.contains(metric.name.description) }
            #expect(lines.contains { line in metric.labels.allSatisfy { line.contains($0.description) } })
        }
        #expect(table.hasSuffix("\n"))
    }
}
