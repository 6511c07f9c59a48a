import CRdKafka

/// Owns an `rd_kafka_conf_t` until a client takes it over.
struct ConfigurationHandle: ~Copyable {
    let pointer: OpaquePointer

    /// Sets the defaults, then the caller's properties in their order: the last one wins.
    init(defaults: KafkaProperties.List, properties: KafkaProperties.List, events: Int32) throws(KafkaError) {
        pointer = rd_kafka_conf_new()
        let errorText = ErrorText()
        for (name, value) in defaults + properties {
            let result = rd_kafka_conf_set(pointer, name, value, errorText.bytes, ErrorText.size)
            guard result != RD_KAFKA_CONF_OK else { continue }
            // The library's own text can repeat the value, which may be a secret.
            let what = result == RD_KAFKA_CONF_UNKNOWN ? "no such property" : "not a value that this property takes"
            throw KafkaError(code: KafkaError.Code.invalidArgument, detail: "librdkafka property \(name): \(what)")
        }
        rd_kafka_conf_set_events(pointer, events)
        rd_kafka_conf_set_log_cb(pointer, forwardLogLine)
    }

    deinit { rd_kafka_conf_destroy(pointer) }

    /// A property as it stands, defaults included.
    func value(of name: String) -> String? {
        var size = 0
        guard rd_kafka_conf_get(pointer, name, nil, &size) == RD_KAFKA_CONF_OK, size > 0 else { return nil }
        var bytes = [CChar](repeating: 0, count: size)
        guard rd_kafka_conf_get(pointer, name, &bytes, &size) == RD_KAFKA_CONF_OK else { return nil }
        return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The caller frees it from here on.
    consuming func release() -> OpaquePointer {
        let pointer = pointer
        discard self
        return pointer
    }
}
