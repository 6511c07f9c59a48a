import Glibc

/// Reads of a request's bytes that need no memory.
enum RequestBytes {
    /// `application/json`, with any parameters; a missing header is taken for it.
    static func isJSON(contentType: UnsafeRawBufferPointer?) -> Bool {
        guard let contentType else { return true }
        let expected: StaticString = "application/json"
        if contentType.equals(expected) { return true }
        let length = expected.utf8CodeUnitCount
        guard contentType.count >= length else { return false }
        for index in 0..<length {
            let byte = contentType[index]
            let lower = (65...90).contains(byte) ? byte + 32 : byte
            guard lower == expected.utf8Start[index] else { return false }
        }
        guard contentType.count > length else { return true }
        return [UInt8(ascii: ";"), UInt8(ascii: " "), 9].contains(contentType[length])
    }

    /// A query's parameter that is `true` or `false`; false without it. Other parameters are ignored.
    static func flag(_ name: StaticString, query: UnsafeRawBufferPointer) throws(RequestProblem) -> Bool {
        guard !query.isEmpty else { return false }
        var result: Bool?
        for part in query.split(separator: UInt8(ascii: "&")) {
            let part = UnsafeRawBufferPointer(rebasing: part)
            let length = name.utf8CodeUnitCount
            guard part.starts(with: name), part.count == length || part[length] == UInt8(ascii: "=") else { continue }
            let value = UnsafeRawBufferPointer(rebasing: part.dropFirst(length + 1))
            let isTrue = value.equals("true")
            guard result == nil, isTrue || value.equals("false") else { throw .badQuery(name) }
            result = isTrue
        }
        return result ?? false
    }

    /// A path's segment without its percent signs; nil if one stands before no two digits.
    static func decodedSegment(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        func digit(_ byte: UInt8) -> UInt8? {
            switch byte {
            case 48...57: byte - 48
            case 65...70: byte - 55
            case 97...102: byte - 87
            default: nil
            }
        }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            guard bytes[index] == UInt8(ascii: "%") else {
                decoded.append(bytes[index])
                index += 1
                continue
            }
            guard index + 2 < bytes.count, let high = digit(bytes[index + 1]), let low = digit(bytes[index + 2]) else {
                return nil
            }
            decoded.append(high << 4 | low)
            index += 3
        }
        return decoded
    }
}

/// W3C's trace context: passed on into the record if it is well formed.
enum Traceparent {
    static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count == 55, bytes[0] == 48, bytes[1] == 48 else { return false }
        var isZero = (trace: true, parent: true)
        for index in 2..<55 {
            let byte = bytes[index]
            if index == 2 || index == 35 || index == 52 {
                guard byte == UInt8(ascii: "-") else { return false }
                continue
            }
            guard (48...57).contains(byte) || (97...102).contains(byte) else { return false }
            if byte != 48 {
                if index < 35 { isZero.trace = false } else if index < 52 { isZero.parent = false }
            }
        }
        return !isZero.trace && !isZero.parent
    }
}

extension UnsafeRawBufferPointer {
    /// The same bytes for what reads spans.
    var octets: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: baseAddress?.assumingMemoryBound(to: UInt8.self), count: count)
    }

    @inline(__always)
    func equals(_ text: StaticString) -> Bool { count == text.utf8CodeUnitCount && starts(with: text) }

    @inline(__always)
    func starts(with text: StaticString) -> Bool {
        guard count >= text.utf8CodeUnitCount, let baseAddress else { return text.utf8CodeUnitCount == 0 }
        return memcmp(baseAddress, text.utf8Start, text.utf8CodeUnitCount) == 0
    }
}
