public import Domain
public import JSON

/// A device token that was registered or withdrawn: a record of `device/1`, keyed by the token's hash.
public struct DeviceRecord: Hashable, Sendable {
    public typealias Registration = DeviceRegistration
    public typealias Platform = DeviceRegistration.Platform
    public typealias Environment = DeviceRegistration.Environment

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
        RecordMembers.decode(
            (key, value, headers, appendTime),
            schema: .device1,
            limit: RecordLimits.smallValueBytes,
            parser: parser
        ) { (hash: DeviceTokenHash, envelope, members) throws(PoisonReason) in
            DecodedDevice(hash: hash, record: try read(members), envelope: envelope)
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
