extension Goal {
    static let newOverGo = Goal(
        name: "new_over_go",
        what: "every day new, ours / Go worker",
        limit: 1,
        isLeast: true
    )
    static let changedOverGo = Goal(
        name: "changed_over_go",
        what: "every day changed, ours / Go worker",
        limit: 1,
        isLeast: true
    )
    static let changedOverLimit = Goal(
        name: "changed_over_limit",
        what: "every day changed, ours / two bare upserts",
        limit: 0.7,
        isLeast: true
    )
    static let resyncOverGo = Goal(
        name: "resync_over_go",
        what: "30 days sent again, 2 changed, ours / Go worker",
        limit: 2,
        isLeast: true
    )
    static let unchangedOverGo = Goal(
        name: "unchanged_over_go",
        what: "30 days sent again, none changed, ours / Go worker",
        limit: 4,
        isLeast: true
    )
    static let resyncOverJDBC = Goal(
        name: "resync_over_jdbc",
        what: "30 days sent again, 2 changed, ours / JDBC sink",
        limit: 6,
        isLeast: true
    )
    static let twoLanesOverOne = Goal(
        name: "two_lanes_over_one",
        what: "every day changed, two lanes / one",
        limit: 1.5,
        isLeast: true
    )
    static let workerCPUOverGo = Goal(
        name: "worker_cpu_over_go",
        what: "worker's CPU, every day changed, ours / Go worker",
        limit: 1.2
    )
    static let postgresCPUOverGo = Goal(
        name: "pg_cpu_over_go_unchanged",
        what: "PostgreSQL's CPU, none changed, ours / Go worker",
        limit: 0.25
    )
    static let liveOverIdle = Goal(
        name: "live_p95_over_idle",
        what: "live p95 while history drains / idle",
        limit: 3
    )
    static let aggregatorMemory = Goal(
        name: "memory_mib",
        what: "the worker's memory before 1 GiB of lag, MiB",
        limit: 256
    )
}
