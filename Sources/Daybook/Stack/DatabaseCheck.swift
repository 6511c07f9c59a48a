import Domain
import Postgres
import Storage

/// What a database lacks for this build.
struct DatabaseCheck: Sendable {
    var version: Int32 = 0
    /// Steps that `daybook migrate` would apply.
    var missingSteps: [String] = []
    /// A step that was applied with another text, or one that this build does not know.
    var fault: String?
    /// First days of months whose partitions are needed soon.
    var missingMonths: [CalendarDay] = []

    var isFine: Bool { missingSteps.isEmpty && fault == nil && missingMonths.isEmpty }

    init(version: Int32 = 0, missingSteps: [String] = [], fault: String? = nil, missingMonths: [CalendarDay] = []) {
        self.version = version
        self.missingSteps = missingSteps
        self.fault = fault
        self.missingMonths = missingMonths
    }

    /// Looks, and changes nothing.
    init(_ connection: PostgresConnection, today: CalendarDay) throws {
        let migrator = Migrator(connection)
        version = try migrator.appliedVersion()
        do {
            missingSteps = try migrator.pending().map(Self.name)
        } catch let failure as Migrator.Failure {
            fault = failure.description
        }
        if version > 0 { missingMonths = try MonthPartitions(connection).missingAhead(of: today) }
    }

    static func name(_ step: Migrator.Migration) -> String { "\(step.version) \(step.name)" }
}
