import CRdKafka

/// Adds headers to the record that is being produced; valid only inside `produce`'s closure.
public struct KafkaHeaderWriter: ~Copyable {
    let headers: OpaquePointer

    /// Copies the bytes.
    public func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
        rd_kafka_header_add(
            headers,
            UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self),
            name.utf8CodeUnitCount,
            value.baseAddress ?? emptyBytes,
            value.count
        )
    }

    /// Copies the text's UTF-8 bytes.
    public func add(_ name: StaticString, _ value: String) {
        var value = value
        value.withUTF8 { add(name, UnsafeRawBufferPointer($0)) }
    }

    /// Copies a header of another record; a `nil` value stays a null.
    public func add(nameBytes: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer?) {
        guard let name = nameBytes.baseAddress?.assumingMemoryBound(to: CChar.self) else { return }
        let bytes = value.map { $0.baseAddress ?? emptyBytes }
        rd_kafka_header_add(headers, name, nameBytes.count, bytes, value?.count ?? 0)
    }
}

/// An address for empty byte strings, which the library tells from null ones by it.
var emptyBytes: UnsafeRawPointer { UnsafeRawPointer(("" as StaticString).utf8Start) }
