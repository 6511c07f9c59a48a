import Observability
import Testing

struct MetricsTests {
    static let requests = MetricDescription(
        "test_requests_total",
        .counter,
        help: "Requests by route.\nAnd a \\ slash.",
        labels: ["route", "code"]
    )
    static let depth = MetricDescription("test_queue_depth", .gauge, help: "Depth.")
    static let latency = MetricDescription(
        "test_latency_seconds",
        .histogram(buckets: [0.005, 0.1, 1]),
        help: "Latency."
    )

    let registry = MetricsRegistry(build: BuildInfo(version: "9.8.7", number: 12))

    private var text: String { String(decoding: registry.renderPrometheusText(), as: UTF8.self) }

    @Test func `every kind renders as the text format says`() {
        registry.counter(Self.requests, ["/v1/days", "202"]).add(3)
        registry.counter(Self.requests, ["a\"b\\c\nd", "500"]).increment()
        registry.gauge(Self.depth).set(2.5)
        let latency = registry.histogram(Self.latency)
        for value in [0.005, 0.006, 0.5, 7] { latency.observe(value) }
        #expect(
            text == #"""
                # HELP daybook_build_info Always 1; the labels name the build.
                # TYPE daybook_build_info gauge
                daybook_build_info{version="9.8.7",build="12"} 1
                # HELP test_latency_seconds Latency.
                # TYPE test_latency_seconds histogram
                test_latency_seconds_bucket{le="0.005"} 1
                test_latency_seconds_bucket{le="0.1"} 2
                test_latency_seconds_bucket{le="1"} 3
                test_latency_seconds_bucket{le="+Inf"} 4
                test_latency_seconds_sum 7.511
                test_latency_seconds_count 4
                # HELP test_queue_depth Depth.
                # TYPE test_queue_depth gauge
                test_queue_depth 2.5
                # HELP test_requests_total Requests by route.\nAnd a \\ slash.
                # TYPE test_requests_total counter
                test_requests_total{route="/v1/days",code="202"} 3
                test_requests_total{route="a\"b\\c\nd",code="500"} 1

                """#
        )
    }

    @Test func `the same labels give the same instrument`() {
        let first = registry.counter(Self.requests, ["a", "b"])
        #expect(first === registry.counter(Self.requests, ["a", "b"]))
        #expect(first !== registry.counter(Self.requests, ["b", "a"]))
    }

    @Test func `concurrent increments are all counted`() async {
        let counter = registry.counter(Self.requests, ["a", "b"])
        let histogram = registry.histogram(Self.latency)
        let gauge = registry.gauge(Self.depth)
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<1000 {
                        counter.increment()
                        histogram.observe(0.25)
                        gauge.add(1)
                    }
                }
            }
        }
        #expect(counter.value == 8000)
        #expect(histogram.count == 8000)
        #expect(histogram.sum == 2000)
        #expect(gauge.value == 8000)
    }

    @Test func `label combinations beyond the bound are counted together`() {
        let bounded = MetricDescription(
            "test_bounded_total",
            .counter,
            help: "Bounded.",
            labels: ["reason"],
            maximumChildren: 2
        )
        for reason in ["a", "b", "c", "d"] { registry.counter(bounded, [reason]).increment() }
        registry.counter(bounded, ["a"]).increment()
        #expect(text.contains("test_bounded_total{reason=\"a\"} 2\n"))
        #expect(text.contains("test_bounded_total{reason=\"other\"} 2\n"))
        #expect(!text.contains("reason=\"c\""))
    }

    @Test func `a reading is taken at every scrape and may use the registry`() {
        let counter = registry.counter(Self.requests, ["a", "b"])
        registry.gauge(Self.depth) { [registry] in Double(registry.counter(Self.requests, ["a", "b"]).value) }
        counter.add(4)
        #expect(text.contains("test_queue_depth 4\n"))
        counter.add(1)
        #expect(text.contains("test_queue_depth 5\n"))
        registry.gauge(Self.depth) { nil }
        #expect(!text.contains("test_queue_depth " + "5"))
    }

    @Test func `a removed child is no longer shown`() {
        registry.counter(Self.requests, ["gone", "x"]).increment()
        registry.remove(Self.requests, ["gone", "x"])
        #expect(!text.contains("gone"))
    }

    @Test func `a name used for two things is found and harms nobody`() {
        let other = MetricDescription("test_queue_depth", .counter, help: "Something else.")
        registry.gauge(Self.depth).set(1)
        registry.counter(other).increment()
        registry.gauge(Self.depth, ["surplus"]).set(7)
        #expect(registry.conflicts == ["test_queue_depth"])
        #expect(text.contains("test_queue_depth 1\n"))
    }

    @Test func `special numbers are written as Prometheus reads them`() {
        let gauge = registry.gauge(Self.depth)
        for (value, written) in [(Double.nan, "NaN"), (.infinity, "+Inf"), (-.infinity, "-Inf"), (-3, "-3")] {
            gauge.set(value)
            #expect(text.contains("test_queue_depth \(written)\n"))
        }
        registry.counter(Self.requests, ["a", "b"]).add(-5)
        #expect(text.contains("test_requests_total{route=\"a\",code=\"b\"} 0\n"))
    }

    @Test func `the process itself is measured`() {
        ProcessMetrics.register(in: registry)
        #expect(ProcessMetrics.all.flatMap(\.problems).isEmpty)
        #expect(text.contains("\nprocess_cpu_seconds_total "))
        #expect(text.contains("\nprocess_resident_memory_bytes ") && text.contains("\nprocess_start_time_seconds "))
    }

    @Test func `a declaration says what is wrong with it`() {
        #expect(Self.requests.problems.isEmpty && Self.depth.problems.isEmpty && Self.latency.problems.isEmpty)
        #expect(!MetricDescription("0bad", .gauge, help: "x").problems.isEmpty)
        #expect(!MetricDescription("bad_total", .gauge, help: "x").problems.isEmpty)
        #expect(!MetricDescription("bad", .counter, help: "x").problems.isEmpty)
        #expect(!MetricDescription("bad", .gauge, help: "").problems.isEmpty)
        #expect(!MetricDescription("bad", .gauge, help: "x", labels: ["le"]).problems.isEmpty)
        #expect(!MetricDescription("bad", .gauge, help: "x", labels: ["a", "a"]).problems.isEmpty)
        #expect(!MetricDescription("bad", .histogram(buckets: [2, 1]), help: "x").problems.isEmpty)
    }
}
