extension Settings {
    /// Apple's and Google's push servers, and who we are to them.
    public enum Push {
        public static let apnsKey = Setting(
            "DAYBOOK_APNS_KEY",
            .secret(minimumBytes: 64),
            .optional,
            for: [.wake],
            "The signing key for Apple's push servers, in PEM form as Apple gives it out (.p8). Without it no iPhone is"
                + " woken."
        )
        public static let apnsKeyID = Setting(
            "DAYBOOK_APNS_KEY_ID",
            .name("the key's ten characters", longest: 32),
            .optional,
            for: [.wake],
            "Names the signing key."
        )
        public static let apnsTeamID = Setting(
            "DAYBOOK_APNS_TEAM_ID",
            .name("the team's ten characters", longest: 32),
            .optional,
            for: [.wake],
            "The team that the key belongs to."
        )
        public static let apnsTopic = Setting(
            "DAYBOOK_APNS_TOPIC",
            .name("a bundle id", longest: 256),
            .optional,
            for: [.wake],
            "The app's bundle id, for device tokens that were registered without one."
        )
        public static let apnsTopics = Setting(
            "DAYBOOK_APNS_TOPICS",
            .text("bundle ids, separated by commas", longest: 4096),
            .optional,
            for: [.wake],
            "Further bundle ids that may be sent to; if none is named, any."
        )
        public static let apnsHost = Setting(
            "DAYBOOK_APNS_HOST",
            .endpoint,
            .defaults(to: "api.push.apple.com:443"),
            for: [.wake],
            "Apple's push server for release builds."
        )
        public static let apnsSandboxHost = Setting(
            "DAYBOOK_APNS_SANDBOX_HOST",
            .endpoint,
            .defaults(to: "api.sandbox.push.apple.com:443"),
            for: [.wake],
            "Apple's push server for debug builds."
        )
        public static let fcmServiceAccount = Setting(
            "DAYBOOK_FCM_SERVICE_ACCOUNT",
            .secret(minimumBytes: 64),
            .optional,
            for: [.wake],
            "The JSON of the service account that sends to Android phones. Without it none is woken."
        )
        public static let fcmHost = Setting(
            "DAYBOOK_FCM_HOST",
            .endpoint,
            .defaults(to: "fcm.googleapis.com:443"),
            for: [.wake],
            "Google's push server."
        )
        public static let fcmTokenURL = Setting(
            "DAYBOOK_FCM_TOKEN_URL",
            .safeURL,
            .derived("as the service account says"),
            for: [.wake],
            "Where access tokens for Google's push server come from."
        )
        public static let certificates = Setting(
            "DAYBOOK_PUSH_CA_FILE",
            .text("a path", longest: 4096),
            .derived("the system's authorities"),
            for: [.wake],
            "A PEM file of the authorities that a push server's certificate may come from."
        )
        public static let proxy = Setting(
            "DAYBOOK_PUSH_PROXY",
            .endpoint,
            .optional,
            for: [.wake],
            "An HTTP proxy that reaches the push servers (by CONNECT)."
        )
        public static let proxyCredentials = Setting(
            "DAYBOOK_PUSH_PROXY_CREDENTIALS",
            .secret(minimumBytes: 1),
            .optional,
            for: [.wake],
            "user:password for the proxy."
        )

        static let all = [
            apnsKey.description, apnsKeyID.description, apnsTeamID.description, apnsTopic.description,
            apnsTopics.description, apnsHost.description, apnsSandboxHost.description,
            fcmServiceAccount.description, fcmHost.description, fcmTokenURL.description, certificates.description,
            proxy.description, proxyCredentials.description,
        ]
    }
}
