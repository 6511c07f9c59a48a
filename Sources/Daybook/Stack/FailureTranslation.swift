import Authentication
import Configuration
import DevelopmentStack
import Kafka
import Postgres
import Storage

extension CommandFailure {
    /// Any error of the parts below, as something a person can act on.
    static func from(_ error: any Error) -> CommandFailure {
        switch error {
        case let failure as CommandFailure: failure
        case let failure as StackFailure: CommandFailure(failure)
        case let failure as PostgresClusterError:
            CommandFailure(.unavailable, failure.description, next: "Put that right and start again.")
        case let failure as PostgresError: CommandFailure(failure)
        case let failure as KafkaError:
            CommandFailure(.unavailable, "Kafka: \(failure.reason) (\(failure.name))", next: failure.nextStep)
        case let failure as ConfigurationErrors:
            CommandFailure(.configuration, failure.description, next: "")
        case let failure as Migrator.Failure:
            CommandFailure(.configuration, failure.description, next: "")
        case let failure as SchemaGate.Refusal:
            CommandFailure(.configuration, failure.description, next: "")
        case let failure as TokenPolicy.Failure:
            CommandFailure(.configuration, failure.description, next: "")
        default:
            CommandFailure(.software, "\(error)", next: "This should not happen: please report it with the command.")
        }
    }

    init(_ failure: StackFailure) {
        let code: ExitCode =
            switch failure.code {
            case .alreadyRunning: .temporaryFailure
            case .portTaken, .notReady: .unavailable
            case .noSpace, .cannotCreate: .cannotCreate
            case .noPermission: .noPermission
            case .cannotStart: .software
            case .unreadableState: .configuration
            }
        self.init(code, failure.message, next: failure.nextStep)
    }

    init(_ failure: PostgresError) {
        let next: String
        switch failure.sqlState {
        case "28P01", "28000": next = "Check the user and the password in DAYBOOK_DATABASE_URL."
        case "3D000": next = "Create the database, or correct its name in DAYBOOK_DATABASE_URL."
        case "42P01": next = "`daybook migrate` makes the tables."
        case "42501": next = "Use a database role that may do this."
        default:
            next =
                failure.connectionLost || failure.sqlState == nil
                ? "Check that PostgreSQL runs (`daybook status`) and DAYBOOK_DATABASE_URL is right." : ""
        }
        self.init(.unavailable, "PostgreSQL: \(failure)", next: next)
    }
}
