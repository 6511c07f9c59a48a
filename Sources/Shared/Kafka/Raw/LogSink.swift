import CRdKafka

/// The owner's log callback, as librdkafka's opaque. `ClientHandle` keeps it until the library's threads are gone.
final class LogSink: Sendable {
    let log: KafkaLog

    init(_ log: @escaping KafkaLog) { self.log = log }

    func line(severity: Int32, facility: UnsafePointer<CChar>?, text: UnsafePointer<CChar>?) {
        log(
            KafkaLogLine(
                kind: .log,
                severity: severity,
                facility: facility.map { String(cString: $0) } ?? "",
                text: text.map { String(cString: $0) } ?? ""
            )
        )
    }

    func error(_ error: KafkaError) {
        log(KafkaLogLine(kind: .error(error), severity: error.isFatal ? 2 : 3, facility: "ERROR", text: error.message))
    }

    func statistics(_ json: String) {
        log(KafkaLogLine(kind: .statistics, severity: 7, facility: "STATS", text: json))
    }
}

/// librdkafka's log callback; any of its threads.
func forwardLogLine(
    client: OpaquePointer?,
    severity: Int32,
    facility: UnsafePointer<CChar>?,
    text: UnsafePointer<CChar>?
) {
    guard let client, let opaque = rd_kafka_opaque(client) else { return }
    Unmanaged<LogSink>.fromOpaque(opaque).takeUnretainedValue().line(
        severity: severity,
        facility: facility,
        text: text
    )
}
