import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// Device tokens, from HTTP to PostgreSQL.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Device tokens` {
    private let days: DaysUnderTest
    private let ann: Person
    private let bob: Person
    /// One that no other test has, as Apple gives them.
    private let token = (0..<4).map { _ in String(format: "%016lx", UInt64.random(in: 0...UInt64.max)) }.joined()

    init() throws {
        days = try .shared()
        ann = days.newPerson()
        bob = days.newPerson()
    }

    private func ask(_ method: String, _ path: String, of person: Person, _ body: String? = nil) throws {
        let answer = try days.ingest.connect().request(
            method,
            path,
            token: IngestUnderTest.token(person.user),
            body: body.map { Array($0.utf8) }
        )
        #expect((200..<300).contains(answer.status), "\(method) \(path): \(answer.status)")
        try days.settle()
    }

    private func register(_ person: Person, _ text: String) throws {
        let body = #"{"token":"\#(text)","platform":"ios","app_id":"com.example.app","app_version":"4.2"}"#
        try ask("POST", "/v1/device-tokens", of: person, body)
    }

    private func live(_ person: Person) throws -> [DeviceTokens.Live] {
        try DeviceTokens(days.pipeline.connection).live(of: [person.user])
    }

    @Test func `registered, moved, withdrawn, replayed, deleted (C19)`() throws {
        // Hex comes in either case, and is one token.
        try register(ann, token.uppercased())
        let found = try #require(try live(ann).first)
        #expect(found.registration.token == token && found.registration.appVersion == "4.2")
        let shown = try days.pipeline.daybook("user", "devices", ann.user.description)
        #expect(shown.status == 0 && shown.output.contains("live"), "\(shown.output)")
        let worker = days.worker.output
        #expect(!shown.output.contains(token) && !worker.contains(token))

        try register(bob, token)
        #expect(try live(ann).isEmpty && live(bob).count == 1)
        try ask("DELETE", "/v1/device-tokens/\(token)", of: ann)
        #expect(try live(bob).count == 1, "a withdrawal is of the own registration")
        try ask("DELETE", "/v1/device-tokens/\(token)", of: bob)
        #expect(try live(ann).isEmpty && live(bob).isEmpty)
        try register(ann, token)
        #expect(try live(ann).count == 1)

        let before = try days.pipeline.hash()
        let moved = try days.pipeline.daybook("rewind", Topic.devices.name(prefix: ""), "--to", "beginning")
        #expect(moved.status == 0, "\(moved.output)")
        try days.settle()
        #expect(try days.pipeline.hash() == before)
        #expect(try live(ann).count == 1 && live(bob).isEmpty)

        try ask("DELETE", "/v1/account", of: ann)
        #expect(try live(ann).isEmpty)
        let left = try days.pipeline.connection.executeUnprepared(
            "SELECT count(*), count(token), count(app_id) FROM device_tokens WHERE user_id = '\(ann.user)'"
        )
        #expect(try left.int8(0, 0) == 1 && left.int8(0, 1) == 0 && left.int8(0, 2) == 0)
        let gone = try days.pipeline.daybook("user", "devices", ann.user.description)
        #expect(gone.status == 1 && gone.output.contains("gone"), "\(gone.output)")
    }

    @Test func `a first push and a first token make a user due, in either order`() throws {
        for (person, tokenFirst) in [(ann, true), (bob, false)] {
            let text = String(token.reversed().map { tokenFirst ? $0 : ($0 == "0" ? "1" : $0) })
            if tokenFirst { try register(person, text) }
            try person.post(.appleHealth, #"{"date":"\#(PipelineUnderTest.today)","steps":5}"#)
            if !tokenFirst { try register(person, text) }
            try days.settle()
            let due = try days.pipeline.connection.executeUnprepared(
                """
                SELECT schedule.due_at - max(connections.last_push_at) FROM wake_schedule AS schedule
                JOIN connections USING (user_id) WHERE user_id = '\(person.user)' GROUP BY schedule.due_at
                """
            )
            #expect(due.rowCount == 1)
            #expect(try due.int8(0, 0) == Int64(WakeRule.spacingSeconds) * 1_000_000)
        }
    }

    @Test func `a bad record is a dead letter, and the next one is applied (D9)`() throws {
        let publisher = try RecordPublisher(
            bootstrapServers: days.pipeline.kafka.bootstrapServers,
            topics: [.devices]
        )
        let hash = String(repeating: "ab", count: 32)
        func count() throws -> Int {
            try days.pipeline.deadLetters().count { $0["origin-topic"] == Topic.devices.name(prefix: "") }
        }
        let before = try count()
        let now = PipelineUnderTest.now
        for text in ["{}", #"{"kind":"register","user":"\#(ann.user)"}"#] {
            try publisher.publish(raw: Array(text.utf8), key: hash, schema: "device/1", receivedAt: now)
        }
        let record = DeviceRecord(user: ann.user, registration: .init(token: "good", platform: .android))
        try publisher.publish(raw: record.encoded(), key: hash, schema: "device/1", receivedAt: now)
        try publisher.flush()
        try days.settle()
        #expect(try count() == before + 2)
        #expect(try live(ann).map(\.registration.token) == ["good"])
    }
}
