import Domain

/// Where a request goes.
enum Route {
    /// `/v1/days`
    case days
    /// `/v1/users/{id}/days`
    case userDays(UserID)

    /// A route without what is variable in it.
    enum Name: Int, CaseIterable {
        /// A path that is none of ours.
        case none, days, userDays

        /// As it stands in metrics, logs and the record's header.
        var text: StaticString {
            switch self {
            case .none: "none"
            case .days: "/v1/days"
            case .userDays: "/v1/users/{id}/days"
            }
        }
    }

    var name: Name {
        switch self {
        case .days: .days
        case .userDays: .userDays
        }
    }

    /// Nil for a path that is none of ours.
    init?(path: UnsafeRawBufferPointer) {
        if Self.matches(path, "/v1/days") {
            self = .days
            return
        }
        let prefix: StaticString = "/v1/users/"
        let suffix: StaticString = "/days"
        let idStart = prefix.utf8CodeUnitCount
        let idEnd = path.count - suffix.utf8CodeUnitCount
        guard idEnd - idStart == 36,
            Self.matches(UnsafeRawBufferPointer(rebasing: path[..<idStart]), prefix),
            Self.matches(UnsafeRawBufferPointer(rebasing: path[idEnd...]), suffix)
        else { return nil }
        let text = UnsafeRawBufferPointer(rebasing: path[idStart..<idEnd]).octets
        guard let user = UserID(ascii: text.span) else { return nil }
        self = .userDays(user)
    }

    /// Whether the query asks for all or nothing; other parameters are ignored.
    static func isStrict(query: UnsafeRawBufferPointer) -> Bool {
        guard !query.isEmpty else { return false }
        return query.split(separator: UInt8(ascii: "&")).contains {
            matches(UnsafeRawBufferPointer(rebasing: $0), "strict=true")
        }
    }

    /// `application/json`, with any parameters; a missing header is taken for it.
    static func isJSON(contentType: UnsafeRawBufferPointer?) -> Bool {
        guard let contentType else { return true }
        let expected: StaticString = "application/json"
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

    private static func matches(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count where bytes[index] != text.utf8Start[index] { return false }
        return true
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
}
