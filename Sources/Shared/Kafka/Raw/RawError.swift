import CRdKafka

extension KafkaError {
    /// The detail is what the library said beyond the code; never a configuration value.
    init(_ code: rd_kafka_resp_err_t, _ detail: String? = nil, isFatal: Bool = false) {
        let name = rd_kafka_err2name(code).map { String(cString: $0) } ?? "\(code.rawValue)"
        let text = rd_kafka_err2str(code).map { String(cString: $0) } ?? "unknown error"
        var reason = text
        if let detail, !detail.isEmpty, detail != text { reason += ": " + detail }
        while let last = reason.last, last == "." || last == " " || last == "\n" { reason.removeLast() }
        self.init(code: Int32(code.rawValue), name: name, reason: reason, isFatal: isFatal)
    }

    init(code: Int32, detail: String) {
        self.init(rd_kafka_resp_err_t(rawValue: code), detail)
    }

    /// Takes the library's error object over and frees it.
    init(taking error: OpaquePointer) {
        let detail = rd_kafka_error_string(error).map { String(cString: $0) }
        self.init(rd_kafka_error_code(error), detail, isFatal: rd_kafka_error_is_fatal(error) != 0)
        rd_kafka_error_destroy(error)
    }

    static func check(_ code: rd_kafka_resp_err_t, _ detail: @autoclosure () -> String? = nil) throws(KafkaError) {
        if code != RD_KAFKA_RESP_ERR_NO_ERROR { throw KafkaError(code, detail()) }
    }
}

/// A buffer that the library writes an error text into.
struct ErrorText: ~Copyable {
    static let size = 512
    let bytes = UnsafeMutablePointer<CChar>.allocate(capacity: ErrorText.size)

    init() { bytes.initialize(repeating: 0, count: ErrorText.size) }

    deinit { bytes.deallocate() }

    var text: String { String(cString: bytes) }
}
