/// What an installation takes, worked out from a number of phones by what was measured. Pure.
struct CapacityPlan: Equatable {
    /// How the phones behave.
    struct Load: Equatable {
        var phones: Int
        var syncsPerDay: Double
        /// Days in one request.
        var daysPerSync: Double = 15
        /// How many of them say something new: today, and now and then yesterday.
        var changedDaysPerSync: Double = 1.5
        /// The busiest minutes of the day over its mean.
        var peak: Double = 5
        /// Sources that each user has days from.
        var sourcesPerUser: Double = 1.3
        var retentionDays: Double = 400
        /// How long Kafka keeps records, and how many copies.
        var logDays: Double = 30
        var logCopies: Double = 3
    }

    /// What one thing costs: processor time in microseconds, sizes in bytes. `rows` names the command that measures each;
    /// docs/SCALING.md shows the same rows, which a test compares.
    struct Figures: Equatable {
        /// A request of 15 days.
        var ingestPerRequest = 29.0
        /// Days that all change, and days sent again unchanged.
        var workerPerChangedDay = 3.9
        var workerPerUnchangedDay = 0.9
        var databasePerChangedDay = 27.3
        var databasePerUnchangedDay = 0.9
        var sourceRow = 170.0
        var canonicalRow = 158.0
        var connection = 481.0
        var logPerNewDay = 444.0
        var logPerUnchangedRequest = 581.0
        var recordPerDay = 2006.0 / 15
    }

    /// How much of a processor or a lane is planned to be used at the peak: the rest is for a machine that is away, and
    /// for catching up.
    static let planned = 0.5
    /// More than this in one PostgreSQL is not planned: place users by bucket in several.
    static let largestDatabase = 32.0

    var meanRequests: Double
    var peakRequests: Double
    var peakDays: Double
    var ingestProcessors: Double
    var ingestProcesses: Int
    var workerProcessors: Double
    var lanes: Int
    var workerProcesses: Int
    var partitions: Int
    var databaseProcessors: Double
    var databases: Int
    var databaseBytes: Double
    var writeAheadBytesPerDay: Double
    var logBytes: Double

    init(_ load: Load, _ figures: Figures = Figures()) {
        let phones = Double(max(0, load.phones))
        let requestsPerDay = phones * load.syncsPerDay
        meanRequests = requestsPerDay / 86_400
        peakRequests = meanRequests * load.peak
        peakDays = peakRequests * load.daysPerSync
        let changed = min(load.changedDaysPerSync, load.daysPerSync)
        let unchanged = load.daysPerSync - changed
        ingestProcessors = Self.processors(peakRequests, figures.ingestPerRequest)
        ingestProcesses = max(2, Self.whole(ingestProcessors))
        let worker = changed * figures.workerPerChangedDay + unchanged * figures.workerPerUnchangedDay
        let database = changed * figures.databasePerChangedDay + unchanged * figures.databasePerUnchangedDay
        workerProcessors = Self.processors(peakRequests, worker)
        databaseProcessors = Self.processors(peakRequests, database)
        // A lane waits for its database, so both times are the lane's.
        lanes = max(2, Self.whole(Self.processors(peakRequests, worker + database)))
        workerProcesses = max(2, Self.whole(workerProcessors))
        partitions = Self.partitions(for: lanes)
        databases = max(1, Self.whole(databaseProcessors / Self.largestDatabase))
        let rows = phones * load.retentionDays
        let bytes =
            rows * load.sourcesPerUser * figures.sourceRow + rows * figures.canonicalRow + phones
            * load.sourcesPerUser * figures.connection
        // What vacuum has not given back yet.
        databaseBytes = bytes * 1.3
        writeAheadBytesPerDay = requestsPerDay * (changed * figures.logPerNewDay + figures.logPerUnchangedRequest)
        logBytes = requestsPerDay * load.daysPerSync * figures.recordPerDay * load.logDays * load.logCopies
    }

    private static func processors(_ perSecond: Double, _ microseconds: Double) -> Double {
        perSecond * microseconds / 1_000_000 / planned
    }

    private static func whole(_ value: Double) -> Int {
        Int(exactly: value.rounded(.up)) ?? Int.max
    }

    /// Twice the lanes, so that workers can be doubled before partitions are; a power of two that Kafka takes.
    private static func partitions(for lanes: Int) -> Int {
        var count = 32
        while count < 4096, count / 2 < lanes { count *= 2 }
        return count
    }
}
