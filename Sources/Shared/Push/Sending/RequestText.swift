import Domain
import HTTP2
import JSON

/// The exact requests.
enum RequestText {
    static let apnsBody = Array(#"{"aps":{"content-available":1}}"#.utf8)

    /// The path varies. All else goes into the compression tables, as Apple advises: the authorization stays the same
    /// for most of an hour, the expiration (in seconds since 1970) for a round of claims.
    static func apnsHeaders(
        authority: String,
        topic: String,
        expiration: Int64,
        authorization: String
    ) -> [RequestHeaders.Field] {
        [
            .fixed(":method", "POST"),
            .fixed(":scheme", "https"),
            .fixed(":authority", authority),
            .varying(":path"),
            .fixed("apns-push-type", "background"),
            .fixed("apns-priority", "5"),
            .fixed("apns-topic", topic),
            .fixed("apns-collapse-id", "wake"),
            .fixed("apns-expiration", String(expiration)),
            .fixed("authorization", authorization),
        ]
    }

    static func fcmHeaders(authority: String, project: String, authorization: String) -> [RequestHeaders.Field] {
        [
            .fixed(":method", "POST"),
            .fixed(":scheme", "https"),
            .fixed(":authority", authority),
            .fixed(":path", "/v1/projects/\(project)/messages:send"),
            .fixed("content-type", "application/json"),
            .fixed("authorization", authorization),
        ]
    }

    static func authority(_ endpoint: PushConfiguration.Endpoint) -> String {
        let host = endpoint.host.contains(":") ? "[\(endpoint.host)]" : endpoint.host
        return endpoint.port == 443 ? host : "\(host):\(endpoint.port)"
    }

    /// Hex digits, as `POST /3/device/` takes them.
    static func isAPNsToken(_ token: String) -> Bool {
        guard (2...512).contains(token.utf8.count) else { return false }
        for byte in token.utf8 where !(48...57 ~= byte || 97...102 ~= byte || 65...70 ~= byte) { return false }
        return true
    }

    static func isFCMToken(_ token: String) -> Bool {
        (1...4096).contains(token.utf8.count)
            && token.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122: true
                case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "."): true
                default: false
                }
            }
    }

    /// A topic goes into a header: visible ASCII, of a length that Apple's bundle ids have.
    static func isTopic(_ topic: String) -> Bool {
        (1...255).contains(topic.utf8.count) && topic.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    }

    /// Writes the path in place of what was there.
    static func apnsPath(_ token: PushToken, into path: inout [UInt8]) {
        path.removeAll(keepingCapacity: true)
        path.append(contentsOf: "/3/device/".utf8)
        path.append(contentsOf: token.text.utf8)
    }

    /// Data only, so that the app wakes and nothing is shown.
    static func fcmBody(_ request: PushRequest, now: Instant) -> [UInt8] {
        let (left, overflow) = request.expiration.microseconds.subtractingReportingOverflow(now.microseconds)
        // Four weeks is the most that FCM takes.
        let seconds = overflow ? 0 : min(max(0, left / 1_000_000), 28 * 86_400)
        var writer = JSONWriter(reserving: 512)
        writer.beginObject()
        writer.key("message")
        writer.beginObject()
        writer.key("token")
        writer.string(request.token.text)
        writer.key("data")
        writer.beginObject()
        writer.key("kind")
        writer.string("wake" as StaticString)
        writer.endObject()
        writer.key("android")
        writer.beginObject()
        writer.key("priority")
        writer.string("NORMAL" as StaticString)
        writer.key("ttl")
        writer.string("\(seconds)s")
        writer.key("collapse_key")
        writer.string("wake" as StaticString)
        writer.endObject()
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }
}
