/// An error answer after RFC 9457.
public struct HTTPProblem: Sendable {
    public var status: Int
    /// A short name for programs, such as `body_too_large`; letters, digits and `_`.
    public var code: String
    public var title: String
    /// What the reader can do next. Never a value from the request.
    public var detail: String?
    /// Further members as finished JSON, each with its key: `"errors":[…]`. Written as given.
    public var members: [UInt8]

    public init(status: Int, code: String, title: String, detail: String? = nil, members: [UInt8] = []) {
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.members = members
    }

    /// What the server itself turns requests away with, before any handler sees them.
    public static var serverRefusals: [(status: Int, code: String)] {
        Refusal.allCases.map { ($0.status, $0.code.description) }
    }

    /// The JSON document.
    public var body: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(160 + members.count)
        bytes.append(contentsOf: #"{"type":"urn:daybook:problem:"#.utf8)
        appendEscaped(code, to: &bytes)
        bytes.append(contentsOf: #"","title":""#.utf8)
        appendEscaped(title, to: &bytes)
        bytes.append(contentsOf: #"","status":"#.utf8)
        bytes.append(contentsOf: String(status).utf8)
        bytes.append(contentsOf: #","code":""#.utf8)
        appendEscaped(code, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
        if let detail {
            bytes.append(contentsOf: #","detail":""#.utf8)
            appendEscaped(detail, to: &bytes)
            bytes.append(UInt8(ascii: "\""))
        }
        if !members.isEmpty {
            bytes.append(UInt8(ascii: ","))
            bytes.append(contentsOf: members)
        }
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    public func response(headers: [HTTPHeader] = []) -> HTTPResponse {
        HTTPResponse(status: status, contentType: .problem, headers: headers, body: body)
    }

    private func appendEscaped(_ text: String, to bytes: inout [UInt8]) {
        let digits = Array("0123456789abcdef".utf8)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20:
                bytes.append(contentsOf: #"\u00"#.utf8)
                bytes.append(digits[Int(byte >> 4)])
                bytes.append(digits[Int(byte & 15)])
            default:
                bytes.append(byte)
            }
        }
    }
}
