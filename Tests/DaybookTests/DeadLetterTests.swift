import Domain
import MessageContract
import Storage
import Testing

@testable import Daybook

struct DeadLetterTests {
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private let noon = Instant(microseconds: 1_790_000_000_000_000)

    private struct NoLetter: Error {}

    private func letter(
        _ offset: Int64,
        reason: String = "bad_json",
        build: String = "41",
        attempt: Int = 1,
        place: Int64? = nil,
        received: Instant? = nil,
        more: [String: String] = [:]
    ) throws -> DeadLetter {
        var headers = [
            "origin-topic": "live", "origin-partition": "3", "origin-offset": "\(offset)",
            "origin-timestamp": "1790000000000", "cluster-id": "c", "reason": reason, "build": build,
            "attempt": "\(attempt)", "schema": "days/1",
        ]
        headers["received-at"] = (received ?? noon).description
        let letter = DeadLetter(
            place: .init(partition: 0, offset: place ?? offset),
            key: alice.description,
            size: 120,
            headers: headers.merging(more) { $1 }
        )
        guard let letter else { throw NoLetter() }
        return letter
    }

    private func box(
        _ letters: [DeadLetter],
        marks: [DeadLetterIdentity: DeadLetterMark] = [:],
        deletions: [UserID: Instant] = [:]
    ) -> DeadLetterBox {
        DeadLetterBox(letters, marks: marks, deletions: deletions)
    }

    @Test func `a letter is read from its headers, and a record without them is none`() throws {
        let found = try letter(7, attempt: 2, more: ["omitted-bytes": "3000000"])
        #expect(found.name == "live/3/7" && found.identity.attempt == 2 && found.user == alice)
        #expect(found.arrived == noon && found.omittedBytes == 3_000_000)
        #expect(DeadLetter(place: .init(partition: 0, offset: 0), key: nil, size: 0, headers: [:]) == nil)
        // Numbers of a stranger do no harm.
        for text in ["", "x", "99999999999999999999"] {
            #expect(throws: NoLetter.self) { try letter(1, more: ["origin-offset": text]) }
        }
        #expect(try letter(1, more: ["attempt": "-5"]).identity.attempt == 1)
        let old = try letter(1, more: ["received-at": "never", "origin-timestamp": "9223372036854775807"])
        #expect(old.arrived == Instant(microseconds: 0))
    }

    @Test func `one that was written twice stands once, and the next attempt is another`() throws {
        let letters = [try letter(7, place: 1), try letter(7, place: 2), try letter(7, attempt: 2, place: 3)]
        let box = box(letters)
        #expect(box.letters.count == 2)
        #expect(box.letters.map(\.letter.place.offset) == [2, 3])
    }

    @Test func `what was decided is no longer open, and a deletion goes before any decision`() throws {
        let letters = [
            try letter(1), try letter(2), try letter(3), try letter(4, received: noon.advanced(bySeconds: 9)),
        ]
        let marks = [
            letters[0].identity: DeadLetterMark(state: .redriven, markedAt: 5),
            letters[1].identity: DeadLetterMark(state: .dropped, reason: "a fuzzer", markedAt: 6),
        ]
        let plain = box(letters, marks: marks)
        #expect(plain.chosen(DeadLetterFilter(), all: false).map(\.letter.identity.offset) == [3, 4])
        #expect(plain.letters.map(\.state.word) == ["redriven", "dropped", "open", "open"])
        let deleted = box(letters, marks: marks, deletions: [alice: noon.advanced(bySeconds: 5)])
        #expect(deleted.letters.map(\.state.word) == ["deleted", "deleted", "deleted", "open"])
    }

    @Test func `filters take what all of them take`() throws {
        let letters = [
            try letter(1), try letter(2, reason: "clock"), try letter(3, build: "42"),
            try letter(4, received: noon.advanced(bySeconds: 60)),
        ]
        func offsets(_ words: [(String, String)], _ name: String? = nil) throws -> [Int64] {
            var arguments = Arguments(command: "dead-letters redrive")
            if let name { arguments.add(positional: name) }
            for (option, value) in words { arguments.add(value: value, to: option) }
            let filter = try DeadLetterFilter(arguments, named: name != nil, now: noon.advanced(bySeconds: 120))
            return box(letters).chosen(filter, all: false).map(\.letter.identity.offset)
        }
        #expect(try offsets([]) == [1, 2, 3, 4])
        #expect(try offsets([], "all") == [1, 2, 3, 4])
        #expect(try offsets([("reason", "bad_json"), ("build", "41")]) == [1, 4])
        #expect(try offsets([("reason", "bad_json"), ("reason", "clock")]) == [1, 2, 3, 4])
        #expect(try offsets([("topic", "history")]) == [])
        #expect(try offsets([("user", alice.description), ("since", "90s")]) == [4])
        #expect(try offsets([("until", noon.advanced(bySeconds: 1).description)]) == [1, 2, 3])
        #expect(try offsets([], "live/3/2") == [2])
        for name in ["live", "live/3", "live/-1/2", "/3/2", "live/3/2/1", "live/x/y"] {
            #expect(throws: CommandFailure.self) { try offsets([], name) }
        }
        #expect(throws: CommandFailure.self) { try offsets([("since", "yesterday")]) }
    }

    @Test func `groups go by reason, topic and build, the largest first`() throws {
        let letters = [
            try letter(1), try letter(2, reason: "clock"), try letter(3, received: noon.advanced(bySeconds: -60)),
        ]
        let marks = [letters[0].identity: DeadLetterMark(state: .redriven, markedAt: 5)]
        let groups = DeadLetterText.groups(box(letters, marks: marks).chosen(DeadLetterFilter(), all: true))
        #expect(groups.map(\.reason) == ["bad_json", "clock"])
        #expect(groups.first?.states == ["open": 1, "redriven": 1] && groups.first?.count == 2)
        #expect(groups.first?.oldest == noon.advanced(bySeconds: -60) && groups.first?.newest == noon)
        let lines = DeadLetterText.text(groups, .plain)
        #expect(lines.count == 3 && lines[0].hasPrefix("REASON") && lines[1].contains("live/3/1"))
        #expect(DeadLetterText.nextSteps(groups).contains { $0.contains("redrive all --reason bad_json") })
        #expect(DeadLetterText.nextSteps([]).isEmpty)
    }

    @Test func `what a record holds is shown so that no terminal obeys it`() {
        func shown(_ bytes: [UInt8]) -> String { bytes.withUnsafeBytes { DeadLettersShowCommand.shown($0) } }
        #expect(shown(Array(#"{"a":"ä"}"#.utf8)) == #"{"a":"ä"}"#)
        #expect(shown([0x1b, 0x5b]) == "0x1b5b")
        #expect(shown([0xff, 0x00]) == "0xff00")
        #expect(shown([0xc2, 0x9b]) == "0xc29b")
        #expect(shown([]) == "")
    }

    @Test func `a device's letter belongs to the user that it names`() {
        func named(_ text: String) -> UserID? { Array(text.utf8).withUnsafeBytes { DeadLetter.userNamed(in: $0) } }
        #expect(named(#"{"kind":"register","user":"\#(alice)","token":"ab"}"#) == alice)
        #expect(named(#"{"user" : "\#(alice)"#) == alice)
        for text in ["", #"{"user":"x"}"#, #""user""#, #"{"user":"\#(alice.description.dropLast())"#, "}{"] {
            #expect(named(text) == nil, "\(text)")
        }
        let headers = [
            "origin-topic": "devices", "origin-partition": "0", "origin-offset": "1", "origin-timestamp": "1",
            "reason": "bad_device",
        ]
        let place = DeadLetter.Place(partition: 0, offset: 0)
        let letter = DeadLetter(place: place, key: "ab12", size: 1, headers: headers, namedUser: alice)
        #expect(letter?.user == alice)
    }

    @Test func `a pace holds, and does not make up for a pause`() {
        var pacer = Pacer(rate: 10, now: 100)
        #expect(pacer.take(now: 100) == 0)
        #expect(abs(pacer.take(now: 100) - 0.1) < 1e-9)
        #expect(abs(pacer.take(5, now: 100) - 0.2) < 1e-9)
        // A second late: a tenth of it may be made up for, no more.
        #expect(pacer.take(now: 110) == 0)
        #expect(pacer.take(now: 110) == 0)
        #expect(pacer.take(now: 110) > 0.09)
        var free = Pacer(rate: nil, now: 0)
        #expect((0..<1000).allSatisfy { _ in free.take(now: 0) == 0 })
    }

    @Test func `progress says how much, how fast and how long`() {
        let line = Progress.line("replay", "records", done: 500, fraction: 0.5, seconds: 10, .plain)
        #expect(line == "replay  [############------------]  50 %  500 records  50/s  10s left")
        #expect(!Progress.line("x", "y", done: 0, fraction: 0, seconds: 0, .plain).contains("left"))
        #expect(Progress.line("x", "y", done: 0, fraction: .nan, seconds: 1, .plain).contains("0 %"))
    }
}
