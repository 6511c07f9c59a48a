/// The programs that read settings.
public enum Program: String, CaseIterable, Sendable {
    case ingest = "ingest-service"
    case aggregator = "aggregator-worker"
    case wake = "wake-worker"
    case tool = "daybook"
}
