public import Domain
public import JSON

/// What a device token is known by: its SHA-256. The key of its records, in lower-case hex.
public struct DeviceTokenHash: Hashable, Comparable, Sendable {
    private let words: InlineArray<4, UInt64>

    public init(_ digest: InlineArray<32, UInt8>) {
        words = InlineArray { word in
            var value: UInt64 = 0
            for byte in 0..<8 { value = value << 8 | UInt64(digest[word * 8 + byte]) }
            return value
        }
    }

    /// Reads 64 digits, in either case.
    public init?(ascii: Span<UInt8>) {
        guard ascii.count == 64 else { return nil }
        var digest = InlineArray<32, UInt8>(repeating: 0)
        for index in 0..<64 {
            let byte = ascii[index]
            let digit: UInt8
            switch byte {
            case 48...57: digit = byte - 48
            case 65...70: digit = byte - 55
            case 97...102: digit = byte - 87
            default: return nil
            }
            digest[index / 2] = digest[index / 2] << 4 | digit
        }
        self.init(digest)
    }

    public var bytes: [UInt8] {
        (0..<32).map { UInt8(truncatingIfNeeded: words[$0 / 8] >> UInt64(56 - $0 % 8 * 8)) }
    }

    /// The record's key.
    public var hex: [UInt8] {
        bytes.flatMap { byte in
            [byte >> 4, byte & 15].map { $0 < 10 ? 48 + $0 : 87 + $0 }
        }
    }

    public static func == (left: DeviceTokenHash, right: DeviceTokenHash) -> Bool {
        for index in 0..<4 where left.words[index] != right.words[index] { return false }
        return true
    }

    public func hash(into hasher: inout Hasher) {
        for index in 0..<4 { hasher.combine(words[index]) }
    }

    public static func < (left: DeviceTokenHash, right: DeviceTokenHash) -> Bool {
        for index in 0..<4 where left.words[index] != right.words[index] {
            return left.words[index] < right.words[index]
        }
        return false
    }
}

/// A device token that was registered or withdrawn: a record of `device/1`, keyed by the token's hash.
public struct DeviceRecord: Hashable, Sendable {
    public enum Platform: String, CaseIterable, Sendable {
        case ios, android
    }

    /// Which of Apple's servers knows the token.
    public enum Environment: String, CaseIterable, Sendable {
        case production, sandbox
    }

    /// What a sender has to know. The token stands here alone: never in a key, a header or a log line.
    public struct Registration: Hashable, Sendable {
        public var token: String
        public var platform: Platform
        public var environment: Environment
        /// The app's bundle id or package name.
        public var appID: String
        public var appVersion: String
        public var osVersion: String
        public var timeZone: String?

        public init(
            token: String,
            platform: Platform,
            environment: Environment = .production,
            appID: String = "",
            appVersion: String = "",
            osVersion: String = "",
            timeZone: String? = nil
        ) {
            self.token = token
            self.platform = platform
            self.environment = environment
            self.appID = appID
            self.appVersion = appVersion
            self.osVersion = osVersion
            self.timeZone = timeZone
        }
    }

    /// Who registers the token, or withdraws their own registration of it.
    public var user: UserID
    /// Nil: the registration is withdrawn.
    public var registration: Registration?

    public init(user: UserID, registration: Registration?) {
        self.user = user
        self.registration = registration
    }

    /// The record's value; it holds the token only where a sender will need it.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reserving: 384)
        writer.beginObject()
        writer.key("kind")
        writer.string(registration == nil ? "withdraw" : "register")
        writer.key("user")
        writer.string(appending: user.append(to:))
        if let registration {
            writer.key("token")
            writer.string(registration.token)
            writer.key("platform")
            writer.string(registration.platform.rawValue)
            writer.key("environment")
            writer.string(registration.environment.rawValue)
            writer.key("app_id")
            writer.string(registration.appID)
            writer.key("app_version")
            writer.string(registration.appVersion)
            writer.key("os_version")
            writer.string(registration.osVersion)
            if let zone = registration.timeZone {
                writer.key("time_zone")
                writer.string(zone)
            }
        }
        writer.endObject()
        return writer.bytes
    }
}

/// One record of a device token, ready to be applied.
public struct DecodedDevice: Hashable, Sendable {
    public let hash: DeviceTokenHash
    public let record: DeviceRecord
    public let envelope: Envelope

    public init(hash: DeviceTokenHash, record: DeviceRecord, envelope: Envelope) {
        self.hash = hash
        self.record = record
        self.envelope = envelope
    }

    public var version: Version { envelope.version }
}

/// Reads records of `device/1`. One decoder belongs to one thread.
public final class DeviceRecordDecoder {
    private let parser: JSONParser

    /// - Throws: `outOfMemory`.
    public init() throws(JSONError) {
        parser = try JSONParser(maximumDepth: 8)
    }

    /// Checks and reads a record, as `DaysRecordDecoder.decode` does. Whether the key is the token's hash is not
    /// checked: the key alone says which registration it is.
    public func decode(
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?
    ) -> Result<DecodedDevice, PoisonReason> {
        do throws(PoisonReason) {
            let envelope = try Envelope(headers, schema: .device1, appendTime: appendTime)
            guard let key, let hash = DeviceTokenHash(ascii: key.octets.span) else { throw PoisonReason.badKey }
            let members = try RecordMembers(value, limit: RecordLimits.smallValueBytes, parser: parser)
            return .success(DecodedDevice(hash: hash, record: try read(members), envelope: envelope))
        } catch {
            return .failure(error)
        }
    }

    private func read(_ members: RecordMembers) throws(PoisonReason) -> DeviceRecord {
        guard let kind = try members.text("kind"), let userText = try members.text("user"),
            let user = UserID(ascii: userText.span)
        else { throw .badShape }
        if kind.equals("withdraw") { return DeviceRecord(user: user, registration: nil) }
        guard kind.equals("register") else { throw .unknownKind }
        guard let token = try members.string("token", longest: RecordLimits.deviceTokenBytes), !token.isEmpty,
            let platform = try members.string("platform", longest: 16).flatMap(DeviceRecord.Platform.init(rawValue:)),
            let environment = try members.string("environment", longest: 16)
                .flatMap(DeviceRecord.Environment.init(rawValue:))
        else { throw .badDevice }
        return DeviceRecord(
            user: user,
            registration: DeviceRecord.Registration(
                token: token,
                platform: platform,
                environment: environment,
                appID: try members.string("app_id", longest: RecordLimits.deviceTextBytes) ?? "",
                appVersion: try members.string("app_version", longest: RecordLimits.deviceTextBytes) ?? "",
                osVersion: try members.string("os_version", longest: RecordLimits.deviceTextBytes) ?? "",
                timeZone: try members.string("time_zone", longest: RecordLimits.zoneBytes)
            )
        )
    }
}
