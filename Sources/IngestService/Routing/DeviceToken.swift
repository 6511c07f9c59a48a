import Authentication
import Domain
import MessageContract

/// A push token as apps send it.
enum DeviceToken {
    /// APNs gives 32 bytes today and keeps the right to give more; they come as hex.
    static let hexDigits = 64...400

    /// Letters, digits and what base64url and FCM put between them.
    static func isPlausible(_ token: [UInt8]) -> Bool {
        (8...RecordLimits.deviceTokenBytes).contains(token.count)
            && token.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122: true
                case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "."), UInt8(ascii: "="): true
                default: false
                }
            }
    }

    static func isHex(_ token: [UInt8]) -> Bool {
        token.count % 2 == 0 && token.allSatisfy { (48...57).contains($0) || (97...102).contains($0 | 0x20) }
    }

    /// One spelling of a token that means the same in several: hex in lower case.
    static func normal(_ token: [UInt8]) -> [UInt8] {
        isHex(token) ? token.map { (65...70).contains($0) ? $0 + 32 : $0 } : token
    }

    /// What its records are keyed by.
    static func hash(_ token: [UInt8]) throws(RequestProblem) -> DeviceTokenHash {
        // OpenSSL's digest fails only without memory.
        guard let digest = SHA256.digest(of: normal(token)) else { throw .notReady }
        return DeviceTokenHash(digest)
    }
}

extension RoutePlan {
    init(_ record: DeviceRecord, of token: [UInt8], _ call: RouteCall) throws(RequestProblem) {
        let written = Record(
            topic: .devices,
            schema: .device1,
            keyedBy: .bytes(try DeviceToken.hash(token).hex),
            value: record.encoded()
        )
        self.init(written, answer: WrittenAnswer(event: call.event))
    }
}
