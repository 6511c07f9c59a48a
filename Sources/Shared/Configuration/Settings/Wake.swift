extension Settings {
    public enum Wake {
        public static let schedule = Setting(
            "DAYBOOK_WAKE_SCHEDULE",
            .choice(placeholder: WakeSending.hourly),
            .defaults(to: "hourly"),
            for: [.wake, .tool],
            "When wakes are sent: once an hour, or continuously, as users come due."
        )
        public static let minute = Setting(
            "DAYBOOK_WAKE_MINUTE",
            .integer(0...59),
            .defaults(to: "20"),
            for: [.wake, .tool],
            "The minute of the hour at which an hourly round begins."
        )
        public static let window = Setting(
            "DAYBOOK_WAKE_WINDOW_S",
            .integer(1...3000, "s"),
            .defaults(to: "600"),
            for: [.wake, .tool],
            "How long an hourly round is spread over, so that the phones don't all answer at once; every user has a"
                + " place of their own in it."
        )
        public static let rate = Setting(
            "DAYBOOK_WAKE_RATE",
            .integer(0...1_000_000, "a second"),
            .defaults(to: "1000"),
            for: [.wake],
            "How many wakes all workers together send at most; 0 for no limit."
        )
        public static let quietHours = Setting(
            "DAYBOOK_WAKE_QUIET_HOURS",
            .quietHours,
            .optional,
            for: [.wake, .tool],
            "When nobody is woken, in the time zone of the user's device, as in 22:00-07:00."
        )
        public static let batch = Setting(
            "DAYBOOK_WAKE_BATCH",
            .integer(1...5000, "users"),
            .defaults(to: "500"),
            for: [.wake],
            "How many users one scan looks at."
        )
        public static let scanInterval = Setting(
            "DAYBOOK_WAKE_SCAN_INTERVAL_MS",
            .integer(50...60_000, "ms"),
            .defaults(to: "1000"),
            for: [.wake],
            "How long a worker waits after a scan that found fewer users than it could have looked at."
        )
        public static let lease = Setting(
            "DAYBOOK_WAKE_LEASE_S",
            .integer(5...600, "s"),
            .defaults(to: "90"),
            for: [.wake],
            "How long a worker may take from claiming a wake to its outcome. Later it sends nothing, and what became of"
                + " the wake counts as unknown."
        )
        public static let logDays = Setting(
            "DAYBOOK_WAKE_LIVE_LOG_DAYS",
            .integer(1...3650, "days"),
            .defaults(to: "30"),
            for: [.wake, .tool],
            "How long the live topic keeps records. After its partitions were doubled, those of the former count are"
                + " looked at for so long."
        )
        public static let recordDays = Setting(
            "DAYBOOK_WAKE_RECORD_DAYS",
            .integer(32...3650, "days"),
            .defaults(to: "180"),
            for: [.wake],
            "How long the records of wakes are kept; whole months are dropped."
        )

        static let all = [
            schedule.description, minute.description, window.description, rate.description, quietHours.description,
            batch.description, scanInterval.description, lease.description, logDays.description,
            recordDays.description,
        ]
    }
}

/// When wakes are sent.
public enum WakeSending: String, CaseIterable, Sendable {
    case hourly
    case continuous
}

extension Format where Value == String {
    static let quietHours = Format(
        type: "text",
        rule: "two times of a day, as in 22:00-07:00, that differ",
        range: "hh:mm-hh:mm",
        placeholder: ""
    ) { text in
        let times = text.split(separator: "-", omittingEmptySubsequences: false).map { Array($0.utf8) }
        let fit = times.allSatisfy { time in
            guard time.count == 5, time[2] == UInt8(ascii: ":") else { return false }
            let digits = [time[0], time[1], time[3], time[4]].map { Int($0) - 48 }
            return digits.allSatisfy { (0...9).contains($0) } && digits[0] * 10 + digits[1] < 24 && digits[2] < 6
        }
        return times.count == 2 && fit && times[0] != times[1] ? text : nil
    }
}
