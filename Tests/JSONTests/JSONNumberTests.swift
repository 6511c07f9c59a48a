import JSON
import Testing

@Suite struct JSONNumberTests {
    private func written(_ tenths: Int32) -> String {
        var writer = JSONWriter()
        writer.tenths(tenths)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// The same by the standard library.
    private func expected(_ tenths: Int32) -> String {
        let magnitude = Int64(tenths).magnitude
        let fraction = magnitude % 10 == 0 ? "" : ".\(magnitude % 10)"
        return "\(tenths < 0 ? "-" : "")\(magnitude / 10)\(fraction)"
    }

    @Test func `tenths are written as the standard library would, at every number of digits`() {
        var numbers: [Int32] = [.min, .max, 0]
        var power: Int32 = 1
        for _ in 0..<9 {
            power *= 10
            for offset in Int32(-12)...12 { numbers += [power + offset, -power + offset] }
        }
        numbers += (0..<20_000).map { $0 * 107_373 &+ $0 }
        for number in numbers { #expect(written(number) == expected(number)) }
    }
}
