import Testing

@testable import Daybook

struct TextTests {
    @Test func `columns line up and no line ends in spaces`() {
        var table = TextTable([.left("NAME"), .right("VALUE"), .left("")])
        table.add(["steps", "12,304", "final"])
        table.add(["é", "7"])
        table.add(["a", "1", "b", "surplus"])
        #expect(
            table.lines() == [
                "NAME    VALUE",
                "steps  12,304  final",
                "é           7",
                "a           1  b",
            ]
        )
    }

    @Test func `numbers are grouped and tenths are shown where there are any`() {
        #expect(grouped(0) == "0")
        #expect(grouped(1234567) == "1,234,567")
        #expect(grouped(-1234) == "-1,234")
        #expect(shown(tenths: 123_040) == "12,304")
        #expect(shown(tenths: 5125) == "512.5")
        #expect(shown(tenths: -5) == "-0.5")
        #expect(shown(tenths: .min) == "-214,748,364.8")
    }

    @Test func `text is wrapped at spaces`() {
        #expect(wrap("one two three", width: 9, indent: 2) == ["  one two", "  three"])
        #expect(wrap("", width: 9).isEmpty)
        #expect(wrap("unbreakable", width: 3) == ["unbreakable"])
    }

    @Test func `colours only on a terminal and never against NO_COLOR`() {
        #expect(TextStyle(environment: [:], isTerminal: true).isColoured)
        #expect(!TextStyle(environment: [:], isTerminal: false).isColoured)
        #expect(!TextStyle(environment: ["NO_COLOR": "1"], isTerminal: true).isColoured)
        #expect(TextStyle(environment: ["NO_COLOR": ""], isTerminal: true).isColoured)
        #expect(!TextStyle(environment: ["TERM": "dumb"], isTerminal: true).isColoured)
        #expect(TextStyle.plain.bad("x") == "x")
        #expect(TextStyle(isColoured: true).bad("x") == "\u{1B}[31mx\u{1B}[0m")
    }

    @Test func `JSON keeps the order of keys and escapes what it must`() {
        let document = JSONDocument.object([
            ("b", .array([.tenths(5125), .tenths(-5), .integer(1), .null])), ("a", .string("x\"\\\n\u{01}é")),
            ("c", .object([])),
        ])
        #expect(
            document.text() == """
                {
                  "b": [
                    512.5,
                    -0.5,
                    1,
                    null
                  ],
                  "a": "x\\"\\\\\\n\\u0001é",
                  "c": {}
                }
                """
        )
    }
}
