import CNGHTTP2

/// The headers that many requests share, in memory of their own: nothing is copied for each request but the values
/// that vary. Belongs to one thread.
public final class RequestHeaders {
    public enum Field {
        /// Lower-case name and value, the same for all requests.
        case fixed(String, String)
        /// As `fixed`, kept out of the compression tables.
        case secret(String, String)
        /// A value that each request has its own of; kept out of the tables too. At most one of them.
        case varying(String)
    }

    private let memory: UnsafeMutablePointer<UInt8>
    let fields: UnsafeMutableBufferPointer<nghttp2_nv>
    /// Where the one that varies stands.
    let varying: Int?

    public init(_ list: [Field]) {
        var bytes: [UInt8] = []
        for field in list {
            switch field {
            case .fixed(let name, let value), .secret(let name, let value):
                bytes.append(contentsOf: name.utf8)
                bytes.append(contentsOf: value.utf8)
            case .varying(let name): bytes.append(contentsOf: name.utf8)
            }
        }
        memory = .allocate(capacity: max(1, bytes.count))
        memory.update(from: bytes, count: bytes.count)
        fields = .allocate(capacity: list.count)
        var varying: Int?
        var place = memory
        let shared = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
        for (index, field) in list.enumerated() {
            var pair = nghttp2_nv()
            pair.flags = UInt8(truncatingIfNeeded: shared)
            let name: String
            var value = ""
            switch field {
            case .fixed(let fixedName, let fixedValue): (name, value) = (fixedName, fixedValue)
            case .secret(let secretName, let secretValue):
                (name, value) = (secretName, secretValue)
                pair.flags |= UInt8(truncatingIfNeeded: NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
            case .varying(let varyingName):
                name = varyingName
                pair.flags |= UInt8(truncatingIfNeeded: NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
                varying = index
            }
            pair.name = place
            pair.namelen = name.utf8.count
            place += name.utf8.count
            pair.value = place
            pair.valuelen = value.utf8.count
            place += value.utf8.count
            fields.initializeElement(at: index, to: pair)
        }
        self.varying = varying
    }

    deinit {
        memory.deallocate()
        fields.deallocate()
    }
}
