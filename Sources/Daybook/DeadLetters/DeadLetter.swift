import Domain
import Kafka
import MessageContract
import Storage

/// A dead letter as its headers tell of it; the record's own value is not among this.
struct DeadLetter: Hashable, Sendable {
    /// Where the letter lies in the dead-letter topic.
    struct Place: Hashable, Sendable {
        let partition: Int32
        let offset: Int64
    }

    let identity: DeadLetterIdentity
    let place: Place
    let reason: String
    /// The worker's build that put it aside.
    let build: String
    let key: String?
    let schema: String?
    let receivedAt: Instant?
    /// Of key and value, in bytes.
    let size: Int
    /// Set where the record was too large to be kept here: it had so many bytes.
    let omittedBytes: Int?

    /// Whose it is: the key's user, or for a device, whose key is a token's hash, the user that the record names.
    let user: UserID?

    /// `TOPIC/PARTITION/OFFSET`, where the record stood.
    var name: String { "\(identity.topic)/\(identity.partition)/\(identity.offset)" }

    /// When the record arrived; where it does not say so, when it was appended.
    var arrived: Instant {
        if let receivedAt { return receivedAt }
        let (microseconds, overflow) = identity.appendedAt.multipliedReportingOverflow(by: 1000)
        return Instant(microseconds: overflow ? 0 : microseconds)
    }

    /// Nil for a record that no worker of Daybook wrote. `headers` are by name, of two with one name the last.
    init?(place: Place, key: String?, size: Int, headers: [String: String], namedUser: UserID? = nil) {
        func text(_ name: StaticString) -> String? { headers[name.description] }
        guard let topic = text(DeadLetterHeaders.topic),
            let partition = text(DeadLetterHeaders.partition).flatMap({ Int32($0) }),
            let offset = text(DeadLetterHeaders.offset).flatMap({ Int64($0) }),
            let appendedAt = text(DeadLetterHeaders.timestamp).flatMap({ Int64($0) }),
            let reason = text(DeadLetterHeaders.reason)
        else { return nil }
        identity = DeadLetterIdentity(
            clusterID: text(DeadLetterHeaders.clusterID) ?? "",
            topic: topic,
            partition: partition,
            offset: offset,
            appendedAt: appendedAt,
            attempt: max(1, text(DeadLetterHeaders.attempt).flatMap { Int32($0) } ?? 1)
        )
        self.place = place
        self.reason = reason
        build = text(DeadLetterHeaders.build) ?? ""
        self.key = key
        user = key.flatMap { UserID($0) } ?? namedUser
        schema = text(HeaderName.schema)
        receivedAt = text(HeaderName.receivedAt).flatMap { Instant(rfc3339: $0) }
        self.size = size
        omittedBytes = text(DeadLetterHeaders.omittedBytes).flatMap { Int($0) }
    }

    init?(_ record: KafkaRecord) {
        var headers: [String: String] = [:]
        record.forEachHeader { name, value in
            headers[String(decoding: name, as: UTF8.self)] = value.map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        self.init(
            place: Place(partition: record.partition, offset: record.offset),
            key: record.withKey { $0.map { String(decoding: $0, as: UTF8.self) } },
            size: record.byteCount,
            headers: headers,
            namedUser: record.withValue { $0.flatMap(Self.userNamed) }
        )
    }

    /// The user that a device's record names. It may be no JSON at all, since it is poison: looked for byte by byte.
    static func userNamed(in value: UnsafeRawBufferPointer) -> UserID? {
        let name = Array("\"user\"".utf8)
        guard value.count >= name.count + 38 else { return nil }
        for start in 0...(value.count - name.count - 38) where value[start] == name[0] {
            guard value[start..<(start + name.count)].elementsEqual(name) else { continue }
            // Between name and id there may be a colon, spaces and the quote.
            let rest = value[(start + name.count)...].prefix(48)
            guard let quote = rest.firstIndex(of: UInt8(ascii: "\"")), value.endIndex - quote > 36 else { continue }
            if let user = UserID(String(decoding: value[(quote + 1)..<(quote + 37)], as: UTF8.self)) { return user }
        }
        return nil
    }
}

/// A dead letter with what became of it.
struct KnownLetter: Sendable {
    enum State: Hashable, Sendable {
        /// Nobody has decided about it.
        case open
        case redriven(at: Instant)
        case dropped(at: Instant, reason: String)
        /// Its user's data was deleted after it had arrived: applied again it would be suppressed.
        case deleted

        var word: String {
            switch self {
            case .open: "open"
            case .redriven: "redriven"
            case .dropped: "dropped"
            case .deleted: "deleted"
            }
        }
    }

    let letter: DeadLetter
    let state: State

    var isOpen: Bool { state == .open }
}

/// The dead letters of a topic, each once, with their states. Pure.
struct DeadLetterBox: Sendable {
    /// In the order of their identities.
    private(set) var letters: [KnownLetter]
    /// Records that no worker of Daybook wrote.
    let strangers: Int

    /// - Parameters:
    ///   - letters: as they were read; one that was written twice stands for itself once.
    ///   - marks: what operators decided.
    ///   - deletions: by user, until when their data is deleted.
    ///   - strangers: how many records could not be read as letters.
    init(
        _ letters: [DeadLetter],
        marks: [DeadLetterIdentity: DeadLetterMark],
        deletions: [UserID: Instant],
        strangers: Int = 0
    ) {
        var newest: [DeadLetterIdentity: DeadLetter] = [:]
        for letter in letters { newest[letter.identity] = letter }
        self.letters = newest.values.sorted { $0.identity < $1.identity }.map { letter in
            KnownLetter(letter: letter, state: Self.state(of: letter, marks, deletions))
        }
        self.strangers = strangers
    }

    private static func state(
        of letter: DeadLetter,
        _ marks: [DeadLetterIdentity: DeadLetterMark],
        _ deletions: [UserID: Instant]
    ) -> KnownLetter.State {
        // First: a deletion holds whatever an operator decided before it.
        if let user = letter.user, let watermark = deletions[user], letter.arrived < watermark { return .deleted }
        guard let mark = marks[letter.identity] else { return .open }
        let at = Instant(microseconds: mark.markedAt)
        switch mark.state {
        case .redriven: return .redriven(at: at)
        case .dropped: return .dropped(at: at, reason: mark.reason)
        }
    }

    /// Those that the filter takes; `all`: also those that somebody has decided about.
    func chosen(_ filter: DeadLetterFilter, all: Bool) -> [KnownLetter] {
        letters.filter { (all || $0.isOpen) && filter.takes($0.letter) }
    }
}
