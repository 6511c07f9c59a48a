/// How the text of a setting becomes a value, and the rule that it is held against.
public struct Format<Value: Sendable>: Sendable {
    /// The word for the documentation's column `Type`.
    let type: String
    /// Completes "must be …"; never shows the value.
    let rule: String
    /// The column `Range`; empty where the rule says nothing beyond the type.
    let range: String
    /// Stands in for a value that could not be read, until the errors are thrown.
    let placeholder: Value
    let parse: @Sendable (String) -> Value?
}

extension Format where Value == Int {
    static func integer(_ range: ClosedRange<Int>, _ unit: String = "") -> Format {
        let suffix = unit.isEmpty ? "" : " " + unit
        return Format(
            type: "integer",
            rule: "a whole number from \(range.lowerBound) to \(range.upperBound)\(suffix)",
            range: "\(range.lowerBound) to \(range.upperBound)\(suffix)",
            placeholder: range.lowerBound
        ) { text in
            // Signs are refused where no negative number is allowed, and so is everything that is not a digit.
            guard text.utf8.count <= 20, let value = Int(text), range.contains(value), !text.hasPrefix("+") else {
                return nil
            }
            return value
        }
    }
}

extension Format where Value == Bool {
    static let boolean = Format(
        type: "boolean",
        rule: "true or false",
        range: "true, false",
        placeholder: false
    ) { text in
        switch text {
        case "true", "1", "yes": true
        case "false", "0", "no": false
        default: nil
        }
    }
}

extension Format where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    static func choice(placeholder: Value) -> Format {
        let names = Value.allCases.map(\.rawValue)
        return Format(
            type: "choice",
            rule: "one of " + names.joined(separator: ", "),
            range: names.joined(separator: ", "),
            placeholder: placeholder
        ) { Value(rawValue: $0) }
    }
}

extension Format where Value == String {
    /// Text of printable ASCII without spaces, which names of topics, groups, zones and folders are.
    static func name(_ what: String, longest: Int, alphabet: String? = nil) -> Format {
        let allowed = alphabet.map { Array($0.utf8) }
        return Format(
            type: "text",
            rule: what + ", at most \(longest) characters",
            range: "at most \(longest) characters",
            placeholder: ""
        ) { text in
            guard text.utf8.count <= longest else { return nil }
            let fits = text.utf8.allSatisfy { byte in
                guard byte > 0x20, byte < 0x7f else { return false }
                switch byte {
                case 48...57, 65...90, 97...122: return true
                default: return allowed.map { $0.contains(byte) } ?? true
                }
            }
            return fits ? text : nil
        }
    }

    static func text(_ what: String, longest: Int) -> Format {
        Format(
            type: "text",
            rule: what + ", at most \(longest) bytes, without control characters",
            range: "at most \(longest) bytes",
            placeholder: ""
        ) { text in
            text.utf8.count <= longest && !text.utf8.contains { $0 < 0x20 || $0 == 0x7f } ? text : nil
        }
    }

    /// One `host:port`; the host may be a name.
    static let endpoint = Format(
        type: "text",
        rule: "host:port, as in api.push.apple.com:443",
        range: "host:port",
        placeholder: ""
    ) { SocketAddress.split($0[...], portFrom: 1) != nil ? $0 : nil }

    /// `host:port`, separated by commas.
    static let brokers = Format(
        type: "list",
        rule: "one or more host:port, separated by commas",
        range: "host:port, separated by commas",
        placeholder: ""
    ) { text in
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
            .map { part in part.drop { $0 == " " } }
        guard !parts.isEmpty, parts.allSatisfy({ SocketAddress.split($0, portFrom: 1) != nil }) else { return nil }
        return parts.joined(separator: ",")
    }
}

extension Format where Value == String {
    /// What `https://` protects, and what does not leave this machine.
    static let safeURL = Format(
        type: "URL",
        rule: "a URL that begins with https://, or with http:// and localhost, 127.0.0.1 or [::1]",
        range: "https://, or http:// on this machine",
        placeholder: ""
    ) { text in
        let isSafe =
            text.hasPrefix("https://") && text.utf8.count > 8
            || ["localhost", "127.0.0.1", "[::1]"].contains { host in
                guard text.hasPrefix("http://\(host)") else { return false }
                return [nil, ":", "/", "?"].contains(text.dropFirst(7 + host.count).first)
            }
        let fits =
            text.utf8.count <= 2048 && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != 0x40 && $0 != 0x23 }
        return isSafe && fits ? text : nil
    }
}

extension Format where Value == [String] {
    /// Paths, separated by commas.
    static func paths(most: Int) -> Format {
        Format(
            type: "list",
            rule: "1 to \(most) paths, separated by commas, without control characters",
            range: "1 to \(most) paths, separated by commas",
            placeholder: []
        ) { text in
            let paths = text.split(separator: ",", omittingEmptySubsequences: false)
                .map { part in String(part.drop { $0 == " " }) }
            guard paths.count <= most else { return nil }
            let fit = paths.allSatisfy { path in
                !path.isEmpty && path.utf8.count <= 4096 && path.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
            }
            return fit ? paths : nil
        }
    }
}

extension Format where Value == SocketAddress {
    static let address = Format(
        type: "address",
        rule: "an IP address and a port, as in 127.0.0.1:8080 or [::1]:8080 (port 0: any free one)",
        range: "IP address:port",
        placeholder: SocketAddress(host: "127.0.0.1", port: 0)
    ) { SocketAddress($0) }
}

extension Format where Value == Secret {
    static func secret(minimumBytes: Int) -> Format {
        Format(
            type: "secret",
            rule: "at least \(minimumBytes) bytes long",
            range: "at least \(minimumBytes) bytes",
            placeholder: Secret("")
        ) { text in
            text.utf8.count >= minimumBytes ? Secret(text) : nil
        }
    }

    static let databaseURL = Format(
        type: "secret",
        rule: "a libpq URL, as in postgresql://user@host:5432/daybook",
        range: "a libpq URL",
        placeholder: Secret("")
    ) { text in
        let isURL = ["postgresql://", "postgres://"].contains { text.hasPrefix($0) }
        return isURL && !text.utf8.contains { $0 < 0x20 } ? Secret(text) : nil
    }
}
