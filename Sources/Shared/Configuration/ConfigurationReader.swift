/// Reads settings from the environment and an optional file (`DAYBOOK_CONFIG_FILE`); the environment wins. An empty
/// value counts as none.
///
/// Reading never throws: what is wrong is collected, and `finish()` throws all of it at once. Until then a value that
/// could not be read is a placeholder, so call `finish()` before using any.
public struct ConfigurationReader {
    public let program: Program
    private var values: [String: String]
    private var problems: [ConfigurationErrors.Problem] = []
    private let readFile: (String) throws -> String

    /// - Parameters:
    ///   - program: Decides which defaults hold.
    ///   - environment: Only keys that begin with `DAYBOOK_` are looked at.
    public init(program: Program, environment: [String: String] = Environment.current()) {
        self.init(program: program, environment: environment) { try TextFile.read($0) }
    }

    init(program: Program, environment: [String: String], readFile: @escaping (String) throws -> String) {
        self.program = program
        self.readFile = readFile
        values = environment.filter { $0.key.hasPrefix(Settings.prefix) && !$0.value.isEmpty }
        if let path = values[Settings.Process.configurationFile.key] { merge(fileAt: path) }
        refuseUnknownKeys()
    }

    private mutating func merge(fileAt path: String) {
        let key = Settings.Process.configurationFile.key
        do {
            let file = ConfigurationFile(parsing: try readFile(path), path: path)
            problems += file.problems
            if file.values[key] != nil { add(key, "can only be set in the environment") }
            // A secret that the environment gives in one form replaces the file's other form as well.
            for (name, value) in file.values where !value.isEmpty && values[name] == nil {
                let twin =
                    name.hasSuffix(Settings.fileSuffix)
                    ? String(name.dropLast(Settings.fileSuffix.utf8.count)) : name + Settings.fileSuffix
                if values[twin] != nil, file.values[twin] == nil { continue }
                values[name] = value
            }
        } catch {
            add(key, Self.explain(error))
        }
    }

    private mutating func refuseUnknownKeys() {
        for key in values.keys.sorted() {
            guard let suggestion = Settings.complaint(about: key) else { continue }
            add(key, suggestion)
        }
    }

    /// The value, its default, or an error kept for `finish()` where a required one is missing.
    public mutating func read<Value>(_ setting: Setting<Value>) -> Value {
        if let value = readOptional(setting) { return value }
        if case .required = setting.description.presence, !isGiven(setting) {
            let files = setting.description.isSecret ? " (or \(setting.key)\(Settings.fileSuffix))" : ""
            add(setting.key, "is required\(files): \(setting.description.meaning)")
        }
        return setting.format.placeholder
    }

    /// The value or its default; nil if there is neither, or if it is wrong.
    public mutating func readOptional<Value>(_ setting: Setting<Value>) -> Value? {
        guard let text = text(of: setting.description) else {
            return setting.description.defaultText(for: program).flatMap(setting.format.parse)
        }
        guard let value = setting.format.parse(text) else {
            add(setting.key, "must be \(setting.format.rule)")
            return nil
        }
        return value
    }

    /// The file that a secret was given as, if it was.
    public func secretFile(of setting: Setting<Secret>) -> String? {
        values[setting.key + Settings.fileSuffix]
    }

    /// Whether it is set, rightly or wrongly.
    public func isGiven<Value>(_ setting: Setting<Value>) -> Bool {
        values[setting.key] != nil || values[setting.key + Settings.fileSuffix] != nil
    }

    /// Properties handed on to librdkafka, sorted by name.
    public mutating func readKafkaProperties() -> [KafkaProperty] {
        var properties: [String: Secret] = [:]
        for key in values.keys.sorted() {
            guard let (base, name) = KafkaProperty.passThrough(key) else { continue }
            guard properties[name] == nil else {
                add(key, "sets \(name), which another key sets already: keep one")
                continue
            }
            if key == base {
                properties[name] = values[key].map(Secret.init)
            } else if let path = values[key], let text = secretFile(key, path) {
                properties[name] = Secret(text)
            }
        }
        return properties.map { KafkaProperty(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
    }

    /// Adds an error about how settings fit together, unless it holds.
    public mutating func require(_ holds: Bool, _ key: String, _ rule: String) {
        if !holds, !problems.contains(where: { $0.place == key }) { add(key, rule) }
    }

    /// Throws everything that was wrong with the settings read so far, and with keys that nobody knows.
    ///
    /// - Throws: `ConfigurationErrors`, if there was anything.
    public func finish() throws(ConfigurationErrors) {
        guard problems.isEmpty else { throw ConfigurationErrors(problems: problems) }
    }

    private mutating func text(of setting: SettingDescription) -> String? {
        guard setting.isSecret, let path = values[setting.key + Settings.fileSuffix] else { return values[setting.key] }
        guard values[setting.key] == nil else {
            add(setting.key, "is set twice: keep either it or \(setting.key)\(Settings.fileSuffix)")
            return nil
        }
        return secretFile(setting.key + Settings.fileSuffix, path)
    }

    private mutating func secretFile(_ key: String, _ path: String) -> String? {
        do {
            var text = try readFile(path)[...]
            // Editors and `echo` end files with a line feed that is no part of the secret.
            while let last = text.last, last.isNewline { text.removeLast() }
            guard !text.isEmpty else {
                add(key, "names an empty file")
                return nil
            }
            return String(text)
        } catch {
            add(key, Self.explain(error))
            return nil
        }
    }

    private mutating func add(_ place: String, _ rule: String) {
        let problem = ConfigurationErrors.Problem(place: place, rule: rule)
        if !problems.contains(problem) { problems.append(problem) }
    }

    private static func explain(_ error: any Error) -> String {
        TextFile.explain(error as? TextFile.Failure ?? .cannotRead)
    }
}
