public import TestSupport

/// What a run is told on its command line.
public struct TortureOptions: Sendable {
    /// How long things are broken; what comes before and after takes about a minute and a half.
    public var seconds = 600
    public var seed: UInt64 = 0
    public var kafka = KafkaUnderTest.Kind.mock
    /// A fixed short plan of the most telling faults, for the gate.
    public var isShort = false

    /// What the run has to go through, or it fails; nil where it is neither the gate's nor long enough to be asked.
    var goal: Coverage.Goal? {
        if isShort { return .short }
        return seconds >= 600 ? .whole : nil
    }

    /// As they are given on the command line.
    var words: String { "--seconds \(seconds) --seed \(seed) --kafka \(kafka.rawValue)" + (isShort ? " --short" : "") }

    public static let help = """
        torture [--seconds N] [--seed S] [--kafka mock|real] [--short]

        Breaks workers, their connections, PostgreSQL and Kafka under load, then compares the tables with a model
        of its own, and replays everything. The seed of a run is printed; --seed repeats its choices. With ten minutes
        or more it also fails where too little was broken, or a kind of fault never came; with --short, where fewer
        than two workers were killed, fewer than nine faults came, or there was nothing to look at for an invariant.
        --kafka real takes three nodes of the Apache Kafka that KAFKA_HOME names.
        """

    public init?(_ arguments: [String]) {
        var generator = SystemRandomNumberGenerator()
        seed = UInt64.random(in: 1...999_999_999, using: &generator)
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--seconds":
                guard let value = rest.popFirst().flatMap({ Int($0) }), (1...86_400).contains(value) else { return nil }
                seconds = value
            case "--seed":
                guard let value = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                seed = value
            case "--kafka":
                guard let kind = rest.popFirst().flatMap({ KafkaUnderTest.Kind(rawValue: $0) }) else { return nil }
                kafka = kind
            case "--short": isShort = true
            default: return nil
            }
        }
    }
}
