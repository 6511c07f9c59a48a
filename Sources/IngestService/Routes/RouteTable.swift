/// Every route of the public door. A new one is a file beside this and a line here.
enum RouteTable {
    /// In the order in which they are looked for: the busiest first.
    static let routes: [Route] = [
        .postDays,
        .postUserDays,
        .postAppleHealth,
        .postTraineeDays,
        .postTraineeSamples,
        .postWearableData,
        .postDeviceToken,
        .deleteDeviceToken,
        .putPin,
        .deleteConnection,
        .deleteAccount,
        .getOpenAPI,
    ]
}
