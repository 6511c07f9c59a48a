extension Settings {
    /// What the operator's program reads besides what it shares with the services.
    public enum Development {
        public static let state = Setting(
            "DAYBOOK_STATE",
            .text("a path", longest: 4096),
            .derived(".daybook in the checkout, or a folder under /var/lib/daybook that it points to"),
            for: [.tool],
            "The folder where `daybook up` keeps its PostgreSQL cluster, logs and addresses."
        )
        public static let workers = Setting(
            "DAYBOOK_WORKERS",
            .integer(1...64),
            .defaults(to: "2"),
            for: [.tool],
            "How many aggregator workers `daybook up` starts."
        )
        public static let url = Setting(
            "DAYBOOK_URL",
            .text("a URL that begins with http://", longest: 1024),
            .derived("the running stack's address"),
            for: [.tool],
            "The ingest service that `daybook send` posts to."
        )
        public static let token = Setting(
            "DAYBOOK_TOKEN",
            .secret(minimumBytes: 16),
            .derived("a token that it mints"),
            for: [.tool],
            "The bearer token that `daybook send` posts with."
        )

        static let all = [state.description, workers.description, url.description, token.description]
    }
}
