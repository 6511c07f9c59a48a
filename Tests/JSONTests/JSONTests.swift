import JSON
import Testing

/// Parses a text and hands the root to the check; the parser outlives it.
private func parsed<Result>(_ text: String, depth: Int = 32, _ check: (JSONValue) throws -> Result) throws -> Result {
    let parser = try JSONParser(maximumDepth: depth)
    var bytes = Array(text.utf8)
    return try bytes.withUnsafeMutableBytes { raw in
        let result = try check(parser.parse(copying: UnsafeRawBufferPointer(raw)))
        withExtendedLifetime(parser) {}
        return result
    }
}

private func code(_ text: String, depth: Int = 32) -> JSONError.Code? {
    do {
        return try parsed(text, depth: depth) { _ in nil }
    } catch let error as JSONError {
        return error.code
    } catch {
        return nil
    }
}

private func code(_ bytes: [UInt8]) -> JSONError.Code? {
    do {
        let parser = try JSONParser()
        try bytes.withUnsafeBytes { _ = try parser.parse(copying: $0) }
        return nil
    } catch {
        return (error as? JSONError)?.code
    }
}

struct JSONParserTests {
    @Test func `every kind of value is found where it stands`() throws {
        let text = #"{"a":1,"b":-2.5,"c":"x\n\u00e9","d":[true,false,null,{}],"e":18446744073709551615,"f":{"g":[]}}"#
        try parsed(text) { root in
            let object = try #require(root.object)
            #expect(try object.member("a")?.integer == 1)
            #expect(try object.member("b")?.double == -2.5)
            #expect(try object.member("b")?.integer == nil)
            #expect(try object.member("c")?.string == "x\né")
            var array = try #require(try object.member("d")?.array)
            #expect(array.count(upTo: 100) == 4)
            #expect(array.next()?.bool == true)
            #expect(array.next()?.bool == false)
            #expect(array.next()?.isNull == true)
            var empty = try #require(array.next()?.object)
            #expect(empty.next() == nil)
            #expect(array.next() == nil)
            #expect(try object.member("e")?.kind == .unsigned)
            #expect(try object.member("e")?.double == 18_446_744_073_709_551_616)
            #expect(try object.member("f")?.object?.member("g")?.array?.count(upTo: 9) == 0)
            #expect(try object.member("missing") == nil)
            var keys: [String] = []
            var walk = object
            while let (key, _) = walk.next() { keys.append(String(decoding: key, as: UTF8.self)) }
            #expect(keys == ["a", "b", "c", "d", "e", "f"])
        }
    }

    @Test(arguments: [
        ("[1e130000]", JSONError.Code.number), ("[01]", .number), ("[NaN]", .syntax), ("[Infinity]", .syntax),
        ("[1.]", .number), ("[-]", .number), ("[123456789012345678901234567890]", .number),
        (#"["\ud800"]"#, .encoding), (#"["\udc00\ud800"]"#, .encoding), (#"["\u0000"]"#, .nul),
        (#"{"a\u0000b":1}"#, .nul), ("[1,]", .syntax), ("{\"a\":1,}", .syntax), ("{'a':1}", .syntax),
        ("[1] 2", .syntax), ("", .empty), ("   ", .empty), ("\"\u{1}\"", .syntax), ("[\"abc", .syntax),
        ("tru", .syntax), ("{\"a\"}", .syntax), ("{1:2}", .syntax), ("/* */ 1", .syntax), ("+1", .syntax),
    ])
    func `nasty documents are errors and never traps`(text: String, expected: JSONError.Code) {
        let found = code(text)
        #expect(found != nil)
        if expected == .nul || expected == .empty || expected == .number || expected == .encoding {
            #expect(found == expected, "\(text)")
        }
    }

    @Test func `bytes that are not UTF-8 are refused`() {
        #expect(code([0x22, 0xff, 0x22]) == .encoding)
        #expect(code([0x22, 0xc0, 0x80, 0x22]) == .encoding)
        #expect(code([0x22, 0xed, 0xa0, 0x80, 0x22]) == .encoding)
        #expect(code([0]) != nil)
        #expect(code([0x22, 0x00, 0x22]) != nil)
    }

    @Test func `nesting is bounded exactly`() {
        func nested(_ levels: Int) -> String {
            String(repeating: "[", count: levels) + "1" + String(repeating: "]", count: levels)
        }
        #expect(code(nested(32)) == nil)
        #expect(code(nested(33)) == .tooDeep)
        #expect(code(nested(4), depth: 4) == nil)
        #expect(code(nested(5), depth: 4) == .tooDeep)
        #expect(code(String(repeating: "[", count: 1_000_000)) != nil)
    }

    @Test func `the depth stays bounded after a large body made the parser grow`() throws {
        let parser = try JSONParser(maximumDepth: 3)
        let large = Array(("[\"" + String(repeating: "x", count: 3 << 20) + "\"]").utf8)
        let deep = Array("[[[[1]]]]".utf8)
        for _ in 0..<2 {
            try large.withUnsafeBytes { bytes in
                var root = try #require(try parser.parse(copying: bytes).array)
                #expect(root.next()?.text?.count == 3 << 20)
            }
            #expect(throws: JSONError(.tooDeep)) {
                try deep.withUnsafeBytes { _ = try parser.parse(copying: $0) }
            }
        }
    }

    @Test func `a key that occurs twice is told`() throws {
        try parsed(#"{"a":1,"b":2,"a":3}"#) { root in
            let object = try #require(root.object)
            #expect(throws: JSONError(.duplicateKey)) { try object.member("a") }
            #expect(try object.member("b")?.integer == 2)
        }
    }

    @Test func `any mutation of a document parses or fails, and can be walked`() throws {
        let source = Array(
            #"{"source":"apple_health","days":[{"date":"2026-09-02","steps":11842,"x":[1.5e3,null]}]}"#.utf8
        )
        let parser = try JSONParser()
        var generator = SplitMix(state: 7)
        func walk(_ value: JSONValue, _ visited: inout Int) {
            visited += 1
            if var object = value.object {
                while let (key, member) = object.next() {
                    visited += key.count
                    walk(member, &visited)
                }
            } else if var array = value.array {
                while let element = array.next() { walk(element, &visited) }
            } else {
                visited += value.text?.count ?? 0
            }
        }
        var visited = 0
        for _ in 0..<20_000 {
            var bytes = source
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let place = Int.random(in: 0..<bytes.count, using: &generator)
                if Bool.random(using: &generator) {
                    bytes[place] = UInt8.random(in: 0...255, using: &generator)
                } else {
                    bytes[place] = source[Int.random(in: 0..<source.count, using: &generator)]
                }
            }
            bytes.removeLast(Int.random(in: 0...3, using: &generator))
            bytes.withUnsafeBytes { raw in
                if let root = try? parser.parse(copying: raw) { walk(root, &visited) }
            }
        }
        #expect(visited > 0)
    }
}

struct JSONWriterTests {
    @Test func `what the writer writes reads back`() throws {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("text")
        writer.string("a\"b\\c\n\u{7f}é")
        writer.key("numbers")
        writer.beginArray()
        writer.integer(0)
        writer.integer(-12)
        writer.integer(Int64.min)
        writer.integer(UInt64.max)
        writer.tenths(84_210)
        writer.tenths(-5)
        writer.tenths(88_075)
        writer.tenths(Int32.min)
        writer.endArray()
        writer.key("nothing")
        writer.null()
        writer.key("yes")
        writer.bool(true)
        writer.key("inner")
        writer.beginObject()
        writer.endObject()
        writer.endObject()
        let text = String(decoding: writer.bytes, as: UTF8.self)
        let expected =
            #"{"text":"a\"b\\c\u000a\u007fé","numbers":[0,-12,-9223372036854775808,18446744073709551615,"#
            + #"8421,-0.5,8807.5,-214748364.8],"nothing":null,"yes":true,"inner":{}}"#
        #expect(text == expected)
        try parsed(text) { root in
            let object = try #require(root.object)
            #expect(try object.member("text")?.string == "a\"b\\c\n\u{7f}é")
        }
        writer.reset()
        writer.beginArray()
        writer.string(appending: { $0.append(0x61) })
        writer.string(Array("b".utf8))
        writer.raw(Array("[1]".utf8))
        writer.endArray()
        writer.string(unescaped: Array("c-_".utf8))
        #expect(String(decoding: writer.bytes, as: UTF8.self) == #"["a","b",[1]],"c-_""#)
        #expect(writer.withBytes { Array($0) } == writer.bytes)
    }

    @Test func `what must be escaped is, wherever in a text it stands`() {
        var writer = JSONWriter()
        for length in 1...20 {
            for place in 0..<length {
                for byte in UInt8.min ... .max {
                    // On both sides of it, in words that are looked at together.
                    var text = Array(repeating: UInt8(ascii: " "), count: length)
                    text[place] = byte
                    var expected = Array("\"".utf8)
                    for byte in text {
                        switch byte {
                        case UInt8(ascii: "\""), UInt8(ascii: "\\"): expected += [UInt8(ascii: "\\"), byte]
                        case 0..<0x20, 0x7f:
                            expected += Array("\\u00".utf8) + Array((byte < 16 ? "0" : "").utf8)
                            expected += Array(String(byte, radix: 16).utf8)
                        default: expected.append(byte)
                        }
                    }
                    writer.reset()
                    writer.string(text)
                    let isAsExpected = writer.bytes == expected + Array("\"".utf8)
                    if !isAsExpected { Issue.record("byte \(byte) at \(place) of \(length)") }
                }
            }
        }
    }

    @Test func `a value is written if it is short enough, and else not much of it`() throws {
        let texts = [
            "{}", "[]", "1", "\"\"", #"{"a":1}"#, #"{"a":[1,2.5,{"b":"\"x\""}],"c":null,"d":[[],{}]}"#,
            #"["é","\u0001",true,false,null,-12.25,18446744073709551615]"#,
        ]
        for text in texts {
            try parsed(text) { root in
                var whole = JSONWriter()
                whole.value(root)
                for limit in 0...(whole.count + 3) {
                    var writer = JSONWriter()
                    writer.beginArray()
                    writer.integer(7)
                    let isWritten = writer.value(root, atMost: limit)
                    // The comma before it counts too.
                    #expect(isWritten == (whole.count + 1 <= limit), "\(text) \(limit)")
                    guard isWritten else { continue }
                    writer.endArray()
                    #expect(writer.bytes == Array("[7,".utf8) + whole.bytes + Array("]".utf8))
                }
            }
        }
        let long = "[" + String(repeating: #"{"key":"\#(String(repeating: "v", count: 90))"},"#, count: 50_000) + "1]"
        try parsed(long) { root in
            var writer = JSONWriter()
            let isWritten = writer.value(root, atMost: 4096)
            #expect(!isWritten && writer.count <= 4096 + 128)
        }
    }
}

struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}
