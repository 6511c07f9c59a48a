/// The catalogue of every key, in groups by owner. A key exists by standing in one of these groups' `all`.
public enum Settings {
    static let prefix = "DAYBOOK_"
    /// A secret may also be given as the path of a file that holds it.
    static let fileSuffix = "_FILE"

    public struct Group: Sendable {
        public let title: String
        public let settings: [SettingDescription]
    }

    public static let groups = [
        Group(title: "Every program", settings: Process.all),
        Group(title: "Kafka", settings: Kafka.all),
        Group(title: "Database", settings: Database.all),
        Group(title: "Ingest", settings: Ingest.all),
        Group(title: "Tokens", settings: Tokens.all),
        Group(title: "Aggregator", settings: Aggregator.all),
        Group(title: "Wakes", settings: Wake.all),
        Group(title: "Push servers", settings: Push.all),
        Group(title: "Operating and development", settings: Development.all),
    ]

    public static let all = groups.flatMap(\.settings)

    private static let byKey = Dictionary(all.map { ($0.key, $0) }) { first, _ in first }

    public static func description(of key: String) -> SettingDescription? {
        if let known = byKey[key] { return known }
        guard key.hasSuffix(fileSuffix) else { return nil }
        let base = byKey[String(key.dropLast(fileSuffix.utf8.count))]
        return base?.isSecret == true ? base : nil
    }

    /// Why a key is refused, or nil if it is known or handed on to librdkafka.
    static func complaint(about key: String) -> String? {
        guard description(of: key) == nil else { return nil }
        let nearest = Suggestion.nearest(to: key, among: all.map(\.key))
        if let (base, name) = KafkaProperty.passThrough(key) {
            if let rule = KafkaProperty.reserved[name] { return rule }
            let mayBeOurs = !name.contains(".") && !KafkaProperty.singleWords.contains(name)
            guard mayBeOurs, let nearest, Suggestion.distance(base, nearest) <= 2 else { return nil }
            return "is not a setting; did you mean \(nearest)?"
        }
        return "is not a setting" + (nearest.map { "; did you mean \($0)?" } ?? "; remove it")
    }
}
