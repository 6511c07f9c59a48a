// swift-tools-version: 6.3
import PackageDescription

/// A Debian C library, found through pkg-config; its shim header wraps what Swift cannot call.
func cLibrary(_ name: String, pkgConfig: String, package: String) -> Target {
    .systemLibrary(
        name: name,
        path: "Sources/Shared/CLibraries/\(name)",
        pkgConfig: pkgConfig,
        providers: [.apt([package])]
    )
}

func shared(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "Sources/Shared/\(name)")
}

/// A service is a library, so tests and benchmarks can run it, and a thin executable, which imports `main` besides.
func service(
    _ name: String,
    executable: String,
    _ dependencies: [Target.Dependency],
    main: [Target.Dependency] = []
) -> [Target] {
    [
        .target(name: name, dependencies: dependencies, path: "Sources/\(name)", exclude: ["Main"]),
        .executableTarget(
            name: executable,
            dependencies: [.target(name: name)] + main,
            path: "Sources/\(name)/Main",
            // As in the images: calls into Swift's runtime, of which every day makes dozens, go straight there.
            linkerSettings: [.unsafeFlags(["-static-stdlib"], .when(configuration: .release))]
        ),
    ]
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: "\(name)Tests", dependencies: dependencies, exclude: exclude)
}

let foundations: [Target] = [
    cLibrary("CCurl", pkgConfig: "libcurl", package: "libcurl4-openssl-dev"),
    cLibrary("CLibPQ", pkgConfig: "libpq", package: "libpq-dev"),
    cLibrary("CNGHTTP2", pkgConfig: "libnghttp2", package: "libnghttp2-dev"),
    cLibrary("COpenSSL", pkgConfig: "openssl", package: "libssl-dev"),
    cLibrary("CRdKafka", pkgConfig: "rdkafka", package: "librdkafka-dev"),
    cLibrary("CZlib", pkgConfig: "zlib", package: "zlib1g-dev"),
    // Debian's node-llhttp ships llhttp as C sources: this target's files include them.
    .target(
        name: "CLLHTTP",
        path: "Sources/Shared/CLibraries/CLLHTTP",
        cSettings: [.unsafeFlags(["-I/usr/share/llhttp", "-I/usr/share/include/llhttp"])]
    ),
    // simdjson is C++: a small target with an `extern "C"` header hides it.
    .target(
        name: "CSimdJSON",
        path: "Sources/Shared/CLibraries/CSimdJSON",
        linkerSettings: [.linkedLibrary("simdjson")]
    ),
    // Gives librdkafka's mock cluster a fixed port and TCP_NODELAY, for the development broker only.
    .target(name: "CMockListener", path: "Sources/Shared/CLibraries/CMockListener"),

    shared("Domain"),
    shared("WakeRules", ["Domain"]),
    shared("JSON", ["CSimdJSON"]),
    shared("MessageContract", ["Domain", "JSON"]),
    shared("Configuration"),
    shared("Observability"),
    shared("ServiceRuntime", ["Observability"]),
    shared("TimeZones", ["Domain"]),
    shared("Authentication", ["COpenSSL", "Domain", "JSON", "Observability", "ServiceRuntime"]),
    shared("HTTPClient", ["CCurl"]),
    shared("Kafka", ["CMockListener", "CRdKafka", "Observability"]),
    shared("Postgres", ["CLibPQ"]),
    shared("HTTPServer", ["CLLHTTP", "CZlib"]),
    shared("HTTP2", ["CNGHTTP2", "COpenSSL"]),
    shared("Push", ["Authentication", "Domain", "HTTP2", "HTTPClient", "JSON", "ServiceRuntime"]),
    shared("PushStandIn", ["COpenSSL", "HTTP2", "JSON", "ServiceRuntime"]),
    .target(
        name: "Storage",
        dependencies: ["Domain", "Postgres", "WakeRules"],
        path: "Sources/Shared/Storage",
        resources: [.embedInCode("Migrations")]
    ),
    shared("Aggregation", ["Domain", "MessageContract", "Postgres", "Storage"]),
    shared("AdminServer", ["HTTPServer", "JSON", "Observability", "ServiceRuntime"]),
    shared("DevelopmentStack", ["Kafka", "Postgres", "ServiceRuntime"]),
    shared("WorkerProgram", ["Configuration", "Observability", "Postgres", "ServiceRuntime"]),
    shared("TestSupport", ["Authentication", "DevelopmentStack", "Domain", "Kafka", "MessageContract", "Postgres"]),
]

let ingest = service(
    "IngestService",
    executable: "ingest-service",
    [
        "AdminServer", "Authentication", "Configuration", "Domain", "HTTPClient", "HTTPServer", "JSON", "Kafka",
        "MessageContract", "Observability", "ServiceRuntime", "TimeZones",
    ]
)

let aggregator = service(
    "AggregatorWorker",
    executable: "aggregator-worker",
    [
        "AdminServer", "Aggregation", "Configuration", "Domain", "JSON", "Kafka", "MessageContract", "Observability",
        "Postgres", "ServiceRuntime", "Storage", "WorkerProgram",
    ],
    main: ["Configuration", "WorkerProgram"]
)

let wake = service(
    "WakeWorker",
    executable: "wake-worker",
    [
        "AdminServer", "Configuration", "Domain", "MessageContract", "Observability", "Postgres", "Push",
        "ServiceRuntime", "Storage", "TimeZones", "WakeRules", "WorkerProgram",
    ],
    main: ["Configuration", "WorkerProgram"]
)

let operatorTool: [Target] = [
    .target(
        name: "Daybook",
        dependencies: [
            "Aggregation", "AggregatorWorker", "Authentication", "Configuration", "DevelopmentStack", "Domain",
            "IngestService", "Kafka", "MessageContract", "Observability", "Postgres", "PushStandIn", "ServiceRuntime",
            "Storage", "TimeZones", "WakeRules", "WakeWorker",
        ],
        path: "Sources/Daybook",
        exclude: ["Main"]
    ),
    .executableTarget(name: "daybook-tool", dependencies: ["Daybook"], path: "Sources/Daybook/Main"),
]

let unitTests: [Target] = [
    tests("Domain", ["Domain"]),
    tests("WakeRules", ["Domain", "ServiceRuntime", "WakeRules"]),
    tests("JSON", ["JSON"]),
    tests("MessageContract", ["Domain", "JSON", "MessageContract"]),
    tests("Configuration", ["Configuration"]),
    tests("Observability", ["Observability"]),
    tests("ServiceRuntime", ["Observability", "ServiceRuntime"]),
    tests("TimeZones", ["Domain", "TimeZones"]),
    tests(
        "Authentication",
        ["Authentication", "COpenSSL", "Domain", "HTTPClient", "HTTPServer", "Observability", "ServiceRuntime"]
    ),
    tests("Kafka", ["Kafka", "ServiceRuntime"]),
    tests("Postgres", ["Postgres"]),
    tests("Storage", ["Domain", "Storage"]),
    tests("Aggregation", ["Aggregation", "Domain", "MessageContract", "ServiceRuntime", "Storage"]),
    tests("AdminServer", ["AdminServer", "Observability", "ServiceRuntime"]),
    tests(
        "Push",
        ["Authentication", "DevelopmentStack", "Domain", "HTTP2", "JSON", "Push", "PushStandIn", "ServiceRuntime"]
    ),
    tests("HTTPServer", ["CZlib", "HTTPServer"]),
    tests(
        "IngestService",
        [
            "AdminServer", "Authentication", "Configuration", "Domain", "HTTPServer", "IngestService", "JSON", "Kafka",
            "MessageContract", "Observability", "ServiceRuntime", "TimeZones",
        ]
    ),
    // The targets of `Scripts/fuzz`, here run with the inputs that are kept.
    .testTarget(
        name: "FuzzTests",
        dependencies: [
            "Authentication", "Domain", "HTTPServer", "IngestService", "JSON", "MessageContract", "TimeZones",
        ],
        path: "Fuzz",
        exclude: ["Entry", "http.dict", "json.dict", "records.dict"]
    ),
    tests(
        "AggregatorWorker",
        [
            "Aggregation", "AggregatorWorker", "Domain", "Kafka", "Observability", "Postgres", "ServiceRuntime",
            "Storage",
        ]
    ),
    tests(
        "WakeWorker",
        ["Domain", "Observability", "Push", "ServiceRuntime", "Storage", "WakeRules", "WakeSimulation", "WakeWorker"]
    ),
    tests(
        "Daybook",
        [
            "Aggregation", "AggregatorWorker", "Configuration", "Daybook", "DevelopmentStack", "Domain", "Kafka",
            "MessageContract", "Observability", "Storage",
        ]
    ),
]

/// Tests that need servers: the edges against real systems, then the built binaries.
let serverTests: [Target] = [
    tests(
        "Conformance",
        [
            "Aggregation", "AggregatorWorker", "DevelopmentStack", "Domain", "Kafka", "MessageContract",
            "Observability", "Postgres", "Push", "PushStandIn", "ServiceRuntime", "Storage", "TestSupport", "WakeRules",
            "WakeWorker",
        ]
    ),
    tests(
        "System",
        [
            "Authentication", "DevelopmentStack", "Domain", "Kafka", "MessageContract", "Postgres", "PushStandIn",
            "Storage", "TestSupport", "WakeRules",
        ]
    ),
]

/// Speed, side by side with other programs; `Scripts/bench-ingest` builds and runs them.
let benchmarks: [Target] = [
    .executableTarget(
        name: "ingest-floor",
        dependencies: ["CLLHTTP", "CRdKafka"],
        path: "Benchmarks/Floor",
        cSettings: [.unsafeFlags(["-I/usr/share/include/llhttp"])]
    ),
    .target(name: "CLoad", path: "Benchmarks/Load"),
    .target(name: "CBareWalk", path: "Benchmarks/BareWalk", linkerSettings: [.linkedLibrary("simdjson")]),
    .executableTarget(
        name: "benchmarks",
        dependencies: [
            "Authentication", "CBareWalk", "CLoad", "DevelopmentStack", "Domain", "IngestService", "JSON", "Kafka",
            "MessageContract", "Postgres", "Push", "PushStandIn", "ServiceRuntime", "Storage", "TestSupport",
            "TimeZones", "WakeRules",
        ],
        path: "Benchmarks/Runner"
    ),
]

/// Breaks everything under load and compares with a model of its own: a program, since it runs for minutes.
let torture: [Target] = [
    .target(
        name: "Torture",
        dependencies: [
            "Authentication", "DevelopmentStack", "Domain", "Kafka", "MessageContract", "Postgres", "ServiceRuntime",
            "Storage", "TestSupport",
        ],
        path: "Tests/Torture",
        exclude: ["Main", "Mutants"]
    ),
    .executableTarget(name: "torture", dependencies: ["Torture"], path: "Tests/Torture/Main"),
]

/// Weeks of phones and wake workers in virtual time, checked against a second model.
let simulation: [Target] = [
    .target(
        name: "WakeSimulation",
        dependencies: ["Domain", "ServiceRuntime", "WakeRules"],
        path: "Tests/WakeSimulation",
        exclude: ["Main"]
    ),
    .executableTarget(name: "wake-simulation", dependencies: ["WakeSimulation"], path: "Tests/WakeSimulation/Main"),
]

let package = Package(
    name: "daybook",
    products: [
        .executable(name: "daybook", targets: ["daybook-tool"]),
        .executable(name: "ingest-service", targets: ["ingest-service"]),
        .executable(name: "aggregator-worker", targets: ["aggregator-worker"]),
        .executable(name: "wake-worker", targets: ["wake-worker"]),
    ],
    targets: foundations + ingest + aggregator + wake + operatorTool + unitTests + serverTests + benchmarks + torture
        + simulation,
    cxxLanguageStandard: .cxx17
)

/// Modules that never touch a pointer, checked by the compiler.
let memorySafeModules: Set = ["Configuration", "Domain", "WakeRules"]
let cTargets: Set = ["CBareWalk", "CLLHTTP", "CLoad", "CMockListener", "CSimdJSON", "ingest-floor"]

/// Modules that every request, every day or every push goes through. In release builds the runtime does not look there
/// whether two accesses to a property overlap: a fiftieth of a request's time. Debug builds, and so all tests, still look.
let hotModules: Set = [
    "Aggregation", "AggregatorWorker", "Authentication", "HTTP2", "HTTPServer", "IngestService", "JSON", "Kafka",
    "MessageContract", "Postgres", "Push", "Storage", "TimeZones",
]

// Every Swift target gets the same settings, so none can fall behind.
for target in package.targets where target.type != .system && !cTargets.contains(target.name) {
    target.swiftSettings = [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        .treatAllWarnings(as: .error),
        // Small functions of Domain, JSON and MessageContract are called for every number of every request: without
        // this they are not inlined into other modules.
        .unsafeFlags(["-cross-module-optimization"], .when(configuration: .release)),
    ]
    if hotModules.contains(target.name) {
        target.swiftSettings?.append(
            .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
        )
    }
    if memorySafeModules.contains(target.name) {
        target.swiftSettings?.append(.strictMemorySafety())
    }
}
