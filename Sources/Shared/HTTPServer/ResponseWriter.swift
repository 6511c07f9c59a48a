import Glibc

/// Puts one answer at a time together, in memory that is reused.
final class ResponseWriter {
    private static let usualCapacity = 256 * 1_024

    private(set) var start: UnsafeMutableRawPointer
    private(set) var count = 0
    private var capacity = 64 * 1_024
    private var date = DateLine()
    /// What the memory begins with, if the last answer had it: all up to the length of the body.
    private var opening: Opening?

    private struct Opening {
        let status: Int
        let contentType: HTTPContentType
        let second: Int
        let length: Int
    }

    /// The memory as a place for bytes that nobody wants.
    func scratch() -> UnsafeMutableRawBufferPointer {
        opening = nil
        return UnsafeMutableRawBufferPointer(start: start, count: capacity)
    }

    init() {
        start = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit {
        start.deallocate()
    }

    enum Persistence {
        case keepAlive
        /// HTTP/1.0 wants to be told.
        case keepAliveHTTP10
        case close
    }

    func write(
        status: Int,
        contentType: HTTPContentType,
        headers: [HTTPHeader],
        body: UnsafeRawBufferPointer,
        isHead: Bool,
        persistence: Persistence
    ) {
        count = 0
        if capacity > Self.usualCapacity {
            opening = nil
            replace(capacity: Self.usualCapacity)
        }
        date.update()
        if let opening, opening.status == status, opening.second == date.second,
            opening.contentType.text.utf8Start == contentType.text.utf8Start
        {
            count = opening.length
        } else {
            open(status, contentType)
        }
        if status != 204, status != 304 {
            append(decimal: body.count)
            append("\r\n")
        }
        for header in headers { append(header) }
        switch persistence {
        case .keepAlive: append("\r\n")
        case .keepAliveHTTP10: append("Connection: keep-alive\r\n\r\n")
        case .close: append("Connection: close\r\n\r\n")
        }
        if !isHead, status != 204, status != 304 { append(body) }
    }

    private func open(_ status: Int, _ contentType: HTTPContentType) {
        if let line = statusLine(status) {
            append(line)
        } else {
            append("HTTP/1.1 ")
            append(decimal: min(max(status, 200), 599))
            append(" \r\n")
        }
        date.bytes.withUnsafeBytes { append($0) }
        if status != 204, status != 304 {
            append("Content-Type: ")
            append(contentType.text)
            append("\r\nContent-Length: ")
        }
        opening = Opening(status: status, contentType: contentType, second: date.second, length: count)
    }

    private func append(_ header: HTTPHeader) {
        append(header.name)
        append(": ")
        reserve(header.value.utf8.count + 2)
        for byte in header.value.utf8 {
            start.storeBytes(of: byte < 0x20 || byte == 0x7f ? 0x20 : byte, toByteOffset: count, as: UInt8.self)
            count += 1
        }
        append("\r\n")
    }

    private func append(_ text: StaticString) {
        append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        reserve(bytes.count)
        memcpy(start + count, source, bytes.count)
        count += bytes.count
    }

    private func append(decimal value: Int) {
        var digits = 1
        var rest = value
        while rest >= 10 {
            rest /= 10
            digits += 1
        }
        reserve(digits)
        rest = value
        for position in stride(from: count + digits - 1, through: count, by: -1) {
            start.storeBytes(of: UInt8(truncatingIfNeeded: 48 + rest % 10), toByteOffset: position, as: UInt8.self)
            rest /= 10
        }
        count += digits
    }

    private func reserve(_ more: Int) {
        guard count + more > capacity else { return }
        replace(capacity: max(capacity * 2, count + more))
    }

    private func replace(capacity newCapacity: Int) {
        let replacement = UnsafeMutableRawPointer.allocate(byteCount: newCapacity, alignment: 16)
        replacement.copyMemory(from: start, byteCount: count)
        start.deallocate()
        start = replacement
        capacity = newCapacity
    }
}

/// `Date: Wed, 02 Sep 2026 21:14:05 GMT`, made once a second.
struct DateLine {
    private(set) var bytes: [UInt8] = []
    private(set) var second = Int.min

    mutating func update() {
        let now = time(nil)
        guard now != second else { return }
        second = now
        bytes = DateLine.format(second: now)
    }

    static func format(second: Int) -> [UInt8] {
        var moment = second
        var parts = tm()
        gmtime_r(&moment, &parts)
        let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let day = days[Int(parts.tm_wday) % 7]
        let month = months[Int(parts.tm_mon) % 12]
        let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { twoDigits($0) }.joined(separator: ":")
        return Array("Date: \(day), \(twoDigits(parts.tm_mday)) \(month) \(parts.tm_year + 1900) \(time) GMT\r\n".utf8)
    }

    private static func twoDigits(_ value: Int32) -> String {
        value < 10 ? "0\(value)" : "\(value)"
    }
}
