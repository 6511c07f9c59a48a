import JSON

/// What Google's token server answers.
struct AccessToken: Sendable {
    let text: String
    let seconds: Int

    /// Nil if it is not such an answer.
    init?(_ body: [UInt8]) {
        guard let parser = try? JSONParser(maximumDepth: 4) else { return nil }
        let read = body.withUnsafeBytes { bytes -> (String, Int)? in
            guard let object = (try? parser.parse(copying: bytes))?.object,
                let text = ((try? object.member("access_token")) ?? nil)?.string,
                let seconds = ((try? object.member("expires_in")) ?? nil)?.integer
            else { return nil }
            return (text, Int(clamping: seconds))
        }
        // It becomes a header's value.
        guard let read, (1...4096).contains(read.0.utf8.count), read.0.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f })
        else { return nil }
        text = read.0
        seconds = min(max(read.1, 0), 86_400)
    }
}
