internal import Domain
internal import Postgres

/// The columns of `device_tokens`, in the order in which they are read.
enum DeviceRowReader {
    /// Of a registration; all null without one.
    static let textNames = [
        "token", "platform", "environment", "app_id", "app_version", "os_version", "time_zone",
    ]
    static let texts = textNames.joined(separator: ", ")
    static let columns = "token_hash, user_id, registered_version, withdrawn_version, deactivated_at, \(texts)"
    /// The same with an empty text for the token, which then does not leave the database.
    static let columnsForPeople = columns.replacing(" token,", with: " left(token, 0),")
    static let cleared = textNames.map { "\($0) = NULL" }.joined(separator: ", ")
    private static let firstText = 5
    static let nextColumn = firstText + textNames.count

    static func key(_ result: PostgresResult, _ row: Int) throws -> DeviceKey {
        let user = try result.uuid(row, 1)
        let bytes = try result.bytea(row, 0)
        guard bytes.count == 32 else { throw StorageError.unreadableDevice }
        let digest = InlineArray<32, UInt8> { bytes[$0] }
        return DeviceKey(hash: DeviceTokenHash(digest), user: UserID(high: user.high, low: user.low))
    }

    static func entry(_ result: PostgresResult, _ row: Int) throws -> DeviceEntry {
        DeviceEntry(
            registered: Version(rawValue: try result.int8(row, 2)),
            withdrawn: Version(rawValue: try result.int8(row, 3)),
            deactivatedAt: Instant(microseconds: try result.int8(row, 4)),
            registration: try registration(result, row)
        )
    }

    private static func registration(_ result: PostgresResult, _ row: Int) throws -> DeviceRegistration? {
        func text(_ number: Int) throws -> String? {
            try result.isNull(row, firstText + number) ? nil : try result.text(row, firstText + number)
        }
        guard let token = try text(0) else { return nil }
        guard let platform = try text(1).flatMap(DeviceRegistration.Platform.init),
            let environment = try text(2).flatMap(DeviceRegistration.Environment.init)
        else { throw StorageError.unreadableDevice }
        return DeviceRegistration(
            token: token,
            platform: platform,
            environment: environment,
            appID: try text(3) ?? "",
            appVersion: try text(4) ?? "",
            osVersion: try text(5) ?? "",
            timeZone: try text(6)
        )
    }

    static func values(of registration: DeviceRegistration?) -> [String?] {
        guard let registration else { return textNames.map { _ in nil } }
        return [
            registration.token, registration.platform.rawValue, registration.environment.rawValue,
            registration.appID, registration.appVersion, registration.osVersion, registration.timeZone,
        ]
    }
}
