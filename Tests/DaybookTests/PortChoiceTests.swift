import DevelopmentStack
import Testing

struct PortChoiceTests {
    @Test func `the next free port is taken`() {
        #expect(PortChoice.next(from: 8080, attempts: 20) { _ in true } == 8080)
        #expect(PortChoice.next(from: 8080, attempts: 20) { $0 >= 8083 } == 8083)
        #expect(PortChoice.next(from: 8080, attempts: 3) { $0 >= 8083 } == nil)
        #expect(PortChoice.next(from: 65_534, attempts: 20) { _ in false } == nil)
    }

    @Test func `a port that the kernel gave out is free afterwards`() throws {
        let port = try #require(PortChoice.any())
        #expect(port > 0)
        #expect(PortChoice.isFree(port))
    }
}
