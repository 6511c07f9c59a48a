import Domain
import Glibc
import Observability
import ServiceRuntime
import Synchronization
import Testing

@testable import Authentication

/// Answers with what a test tells it to.
private final class ScriptedFetcher: KeyFetcher {
    private let state = Mutex<(document: [UInt8]?, count: Int)>((nil, 0))

    var count: Int { state.withLock { $0.count } }
    func serve(_ document: [UInt8]?) { state.withLock { $0.document = document } }

    func fetch(_ url: String, isCancelled: @escaping @Sendable () -> Bool) throws(KeyFetchFailure) -> [UInt8] {
        let document = state.withLock { state in
            state.count += 1
            return state.document
        }
        guard let document else { throw KeyFetchFailure("Timeout was reached") }
        return document
    }
}

/// A folder of the test's own.
private final class Folder {
    let path: String

    init() throws {
        var template = Array("/tmp/daybook-keys.XXXXXX".utf8CString)
        path = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    deinit {
        for name in ["a", "b", "c"] { unlink("\(path)/\(name)") }
        rmdir(path)
    }

    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        let file = try #require(fopen("\(path)/\(name)", "w"))
        fputs(text, file)
        fclose(file)
        return "\(path)/\(name)"
    }
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

private let first = TestKeys.jwks(TestKeys.ecKey(TestKeys.ecAPoint, kid: "a"))
private let second = TestKeys.jwks(TestKeys.ecKey(TestKeys.ecBPoint, kid: "b"))

struct KeyFileTests {
    private let time = ManualTime()
    private let sink = MemorySink()
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func keeper(_ sources: KeySources) throws -> KeyKeeper {
        try KeyKeeper(sources, fetcher: ScriptedFetcher(), time: time, log: Log(service: "test", sink: sink))
    }

    private func look(_ keeper: KeyKeeper) {
        time.advance(milliseconds: 2001)
        _ = keeper.turn()
    }

    @Test func `each kind of file is read anew when it changes`() throws {
        let old = "0123456789abcdef0123456789abcdef"
        let new = "fedcba9876543210fedcba9876543210"
        var sources = KeySources()
        sources.secretFiles = [try folder.write("a", old + "\n")]
        sources.pemFiles = [try folder.write("b", TestKeys.rsaAPublic)]
        sources.jwksFile = try folder.write("c", text(first))
        let keeper = try keeper(sources)
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        func minted(_ secret: String) throws -> String {
            try TokenMinter(TokenPolicy(hmacKeys: [Array(secret.utf8)])).mint(subject: "x", now: testNow, validFor: 9)
        }
        let before = try [minted(old), token(TestKeys.rsaAPrivate), token(TestKeys.ecAPrivate, kid: "a")]
        let after = try [minted(new), token(TestKeys.rsaBPrivate), token(TestKeys.ecBPrivate, kid: "b")]
        for index in 0..<3 { #expect(verifier.code(before[index]) == nil && verifier.code(after[index]) != nil) }
        try folder.write("a", new)
        try folder.write("b", TestKeys.rsaBPublic)
        try folder.write("c", text(second))
        #expect(verifier.code(after[0]) != nil)
        look(keeper)
        for index in 0..<3 { #expect(verifier.code(before[index]) != nil && verifier.code(after[index]) == nil) }
        #expect(keeper.status.counts == [.hs256: 1, .rs256: 1, .es256: 1])
        #expect(keeper.status.failures.isEmpty && keeper.status.lastSuccess.count == 3)
    }

    @Test(arguments: ["", "broken", "-----BEGIN PUBLIC KEY-----\nMFkw", nil] as [String?])
    func `a file that broke leaves its keys as they were, and is named in the log once`(content: String?) throws {
        var sources = KeySources()
        sources.pemFiles = [try folder.write("a", TestKeys.ecAPublic), try folder.write("b", TestKeys.rsaAPublic)]
        let keeper = try keeper(sources)
        let generation = keeper.ring.generation
        if let content { try folder.write("a", content) } else { unlink("\(folder.path)/a") }
        for _ in 0..<3 { look(keeper) }
        #expect(keeper.ring.generation == generation)
        #expect(keeper.status.failures == [.pemFile: 3])
        #expect(sink.lines.count { $0.contains("broken") && $0.contains("\(folder.path)/a") } == 1)
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        #expect(try verifier.code(token(TestKeys.ecAPrivate)) == nil)
        // Another one is still read anew meanwhile.
        try folder.write("b", TestKeys.rsaBPublic)
        look(keeper)
        #expect(try verifier.code(token(TestKeys.rsaBPrivate)) == nil)
        try folder.write("a", TestKeys.ecBPublic)
        look(keeper)
        #expect(try verifier.code(token(TestKeys.ecBPrivate)) == nil)
        #expect(try verifier.code(token(TestKeys.ecAPrivate)) == .badSignature)
        #expect(keeper.status.failures == [.pemFile: 4])
    }

    @Test func `a start with broken or no keys is refused, and says with which file`() throws {
        #expect(throws: KeyKeeper.Failure.self) { try keeper(KeySources()) }
        var sources = KeySources()
        sources.jwksFile = "/nowhere/keys.json"
        let failure = #expect(throws: KeyKeeper.Failure.self) { try keeper(sources) }
        #expect(failure?.description.hasPrefix("/nowhere/keys.json: The file can't be read") == true)
        sources.jwksFile = nil
        sources.secrets = [[1, 2, 3]]
        #expect(throws: KeyKeeper.Failure.self) { try keeper(sources) }
    }
}

struct KeyRefreshTests {
    private let time = ManualTime()
    private let fetcher = ScriptedFetcher()

    private func keeper(_ onUsable: @escaping @Sendable () -> Void = {}) throws -> KeyKeeper {
        var sources = KeySources()
        sources.jwksURL = "https://id.example/keys"
        return try KeyKeeper(sources, fetcher: fetcher, time: time, onUsable: onUsable)
    }

    private func pass(_ keeper: KeyKeeper, seconds: Int64) {
        time.advance(milliseconds: seconds * 1000)
        _ = keeper.turn()
    }

    @Test func `it is fetched at the start, sooner and sooner again until it is there, then at the interval`() throws {
        let usable = Mutex(0)
        let keeper = try keeper { usable.withLock { $0 += 1 } }
        #expect(!keeper.status.isUsable && fetcher.count == 0)
        _ = keeper.turn()
        #expect(fetcher.count == 1 && usable.withLock { $0 } == 0)
        pass(keeper, seconds: 1)
        pass(keeper, seconds: 1)
        #expect(fetcher.count == 2)
        fetcher.serve(first)
        pass(keeper, seconds: 1)
        #expect(fetcher.count == 3 && keeper.status.isUsable && usable.withLock { $0 } == 1)
        #expect(keeper.status.failures[.jwksURL] == 2)
        pass(keeper, seconds: 299)
        #expect(fetcher.count == 3)
        fetcher.serve(second)
        pass(keeper, seconds: 1)
        #expect(fetcher.count == 4 && usable.withLock { $0 } == 1)
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        #expect(try verifier.code(token(TestKeys.ecBPrivate, kid: "b")) == nil)
        #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "a")) == .badSignature)
    }

    @Test func `keys stay when a refresh fails, for whatever reason`() throws {
        let keeper = try keeper()
        fetcher.serve(first)
        _ = keeper.turn()
        let success = keeper.status.lastSuccess[.jwksURL]
        #expect(success?.microseconds == time.wallMicroseconds())
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        let good = try token(TestKeys.ecAPrivate, kid: "a")
        for (index, document) in [nil, [], Array("<html>".utf8), Array(#"{"keys":[]}"#.utf8)].enumerated() {
            fetcher.serve(document)
            pass(keeper, seconds: index == 0 ? 300 : 30)
            #expect(verifier.code(good) == nil)
            #expect(keeper.status.failures[.jwksURL] == index + 1 && keeper.status.lastSuccess[.jwksURL] == success)
        }
        fetcher.serve(first)
        pass(keeper, seconds: 30)
        #expect(keeper.status.lastSuccess[.jwksURL] != success && keeper.ring.generation == 1)
    }

    @Test func `an unknown kid has it fetched, at most every 30 seconds`() throws {
        let keeper = try keeper()
        fetcher.serve(first)
        _ = keeper.turn()
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        let unknown = try token(TestKeys.ecBPrivate, kid: "b")
        #expect(verifier.code(unknown) == .badSignature)
        pass(keeper, seconds: 29)
        #expect(fetcher.count == 1)
        // It is not forgotten: the fetch comes as soon as it may.
        pass(keeper, seconds: 1)
        #expect(fetcher.count == 2)
        for _ in 0..<100 {
            #expect(verifier.code(unknown) == .badSignature)
            pass(keeper, seconds: 1)
        }
        #expect(fetcher.count == 5)
        fetcher.serve(second)
        pass(keeper, seconds: 30)
        #expect(verifier.code(unknown) == nil)
    }

    @Test func `without a URL an unknown kid wakes nobody, however often it comes`() throws {
        var sources = KeySources()
        sources.secrets = [Array("0123456789abcdef0123456789abcdef".utf8)]
        let keeper = try KeyKeeper(sources, fetcher: fetcher, time: time)
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        try keeper.start()
        let deadline = Deadline.after(milliseconds: 10_000)
        while keeper.turns == 0, !deadline.hasPassed() { usleep(1000) }
        for number in 0..<100 {
            #expect(try verifier.code(token(TestKeys.ecAPrivate, kid: "a\(number)")) == .badSignature)
        }
        keeper.beginStop()
        #expect(keeper.waitStopped(until: .after(milliseconds: 5000)))
        #expect(keeper.turns == 1 && fetcher.count == 0)
    }
}
