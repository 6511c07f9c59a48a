import Domain
import Testing

@testable import Authentication

struct TokenCacheTests {
    private func token(_ number: Int) -> [UInt8] { Array("token-\(number)-\(String(repeating: "x", count: 200))".utf8) }

    private func verified(_ number: Int) -> VerifiedToken {
        VerifiedToken(
            identity: Identity(user: UserID(high: 1, low: UInt64(number))),
            validity: TokenValidity(expires: testNow, notBefore: nil)
        )
    }

    private func insert(_ number: Int, _ cache: inout TokenCache) {
        token(number).withUnsafeBytes { cache.insert($0, hash: cache.hash($0), verified(number)) }
    }

    private func find(_ number: Int, _ cache: TokenCache) -> VerifiedToken? {
        token(number).withUnsafeBytes { cache.find($0, hash: cache.hash($0)) }
    }

    @Test func `tokens that fit are remembered together, each as its own`() {
        var cache = TokenCache(capacity: 4096)
        for number in 0..<500 { insert(number, &cache) }
        var missing = 0
        for number in 0..<500 {
            if let found = find(number, cache) {
                #expect(found.identity.user == UserID(high: 1, low: UInt64(number)))
            } else {
                missing += 1
            }
        }
        // Five in one set of four are rare.
        #expect(missing <= 5, "\(missing)")
        #expect(find(500, cache) == nil)
    }

    @Test func `memory is bounded, the newest is always there, and one that is removed is gone`() {
        var cache = TokenCache(capacity: 64)
        for number in 0..<10_000 {
            insert(number, &cache)
            insert(number, &cache)
            #expect(find(number, cache) != nil)
        }
        #expect((0..<10_000).count { find($0, cache) != nil } <= 64)
        token(9_999).withUnsafeBytes { cache.remove(hash: cache.hash($0)) }
        #expect(find(9_999, cache) == nil)
        cache.removeAll()
        #expect((0..<10_000).allSatisfy { find($0, cache) == nil })
    }
}
