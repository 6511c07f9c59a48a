import Testing

@testable import Configuration

struct CatalogueTests {
    @Test func `keys are unique, well formed and documented`() {
        let keys = Settings.all.map(\.key)
        #expect(Set(keys).count == keys.count)
        for setting in Settings.all {
            #expect(setting.key.hasPrefix("DAYBOOK_"))
            #expect(
                setting.key.utf8.allSatisfy { (65...90).contains($0) || (48...57).contains($0) || $0 == 0x5f },
                "\(setting.key)"
            )
            #expect(!setting.programs.isEmpty && !setting.type.isEmpty && !setting.rule.isEmpty, "\(setting.key)")
            #expect(setting.meaning.count > 15 && setting.meaning.hasSuffix("."), "\(setting.key)")
            #expect(!setting.meaning.utf8.contains { $0 < 0x20 }, "\(setting.key)")
        }
    }

    @Test func `every default obeys its own rule, and every program that reads a setting has one`() {
        for setting in Settings.all {
            for (_, text) in setting.defaultTexts { #expect(setting.accepts(text), "\(setting.key)") }
            if case .defaultsPerProgram(let texts) = setting.presence {
                #expect(Set(texts.keys) == Set(setting.programs), "\(setting.key)")
            }
            if setting.isSecret { #expect(setting.defaultTexts.isEmpty, "a secret has no default: \(setting.key)") }
        }
    }

    @Test func `who reads a setting obeys it`() {
        // Whether a topic is weak, ingest and `daybook migrate` ask.
        let weak = Settings.Kafka.allowWeakTopics.description
        #expect(weak.programs == [.ingest, .tool])
        // Below the 15 s in which a worker has to end, with what is lost until it is forced to.
        var reader = ConfigurationReader(program: .aggregator, environment: [:])
        #expect(ProcessConfiguration(&reader).gracePeriodMilliseconds <= 14_000)
    }

    @Test func `no key can be taken for the file form of another, or for a librdkafka property`() {
        let keys = Set(Settings.all.map(\.key))
        for setting in Settings.all {
            if setting.isSecret { #expect(!keys.contains(setting.key + "_FILE")) }
            #expect(KafkaProperty.passThrough(setting.key) == nil)
            #expect(Settings.complaint(about: setting.key) == nil)
        }
    }

    @Test func `the committed documentation is the generated one`() throws {
        let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        let committed = try TextFile.read("/\(root)/docs/CONFIGURATION.md")
        #expect(
            committed == ConfigurationTable.render(.markdown),
            "run `Scripts/daybook config --format markdown > docs/CONFIGURATION.md`"
        )
    }

    @Test(arguments: ConfigurationTable.Style.allCases)
    func `every style names every key and ends its last line`(style: ConfigurationTable.Style) {
        let table = ConfigurationTable.render(style)
        for setting in Settings.all {
            #expect(table.contains(setting.key))
            for (_, text) in setting.defaultTexts { #expect(table.contains(text)) }
        }
        #expect(table.hasSuffix("\n") && !table.hasSuffix("\n\n") || style == .text)
    }

    @Test(arguments: [("", "", 0), ("abc", "abd", 1), ("abc", "", 3), ("kitten", "sitting", 3)])
    func `distance counts letters to change`(left: String, right: String, distance: Int) {
        #expect(Suggestion.distance(left, right) == distance)
        #expect(Suggestion.distance(right, left) == distance)
    }
}
