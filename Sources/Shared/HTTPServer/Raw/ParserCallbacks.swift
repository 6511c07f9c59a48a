import CLLHTTP

// llhttp keeps a pointer to these for as long as a parser lives: made once, never changed, never freed.
nonisolated(unsafe) let parserSettings: UnsafePointer<llhttp_settings_t> = {
    let settings = UnsafeMutablePointer<llhttp_settings_t>.allocate(capacity: 1)
    llhttp_settings_init(settings)
    settings.pointee.on_url = parserFoundTarget
    settings.pointee.on_header_field = parserFoundName
    settings.pointee.on_header_field_complete = parserFinishedName
    settings.pointee.on_header_value = parserFoundValue
    settings.pointee.on_headers_complete = parserFinishedHead
    settings.pointee.on_body = parserFoundBody
    settings.pointee.on_message_complete = parserFinishedMessage
    return UnsafePointer(settings)
}()

private typealias Parser = UnsafeMutablePointer<llhttp_t>

/// Every parser's `data` is its `ParserState`, set before the first callback.
private func state(_ parser: Parser?) -> UnsafeMutablePointer<ParserState>? {
    parser?.pointee.data?.assumingMemoryBound(to: ParserState.self)
}

private let failure = Int32(HPE_USER.rawValue)

private func parserFoundTarget(_ parser: Parser?, _ at: UnsafePointer<CChar>?, _ length: Int) -> Int32 {
    guard let state = state(parser), let at else { return failure }
    return state.pointee.addTarget(at, length)
}

private func parserFoundName(_ parser: Parser?, _ at: UnsafePointer<CChar>?, _ length: Int) -> Int32 {
    guard let state = state(parser), let at else { return failure }
    return state.pointee.addName(at, length)
}

private func parserFinishedName(_ parser: Parser?) -> Int32 {
    state(parser)?.pointee.finishName() ?? failure
}

private func parserFoundValue(_ parser: Parser?, _ at: UnsafePointer<CChar>?, _ length: Int) -> Int32 {
    guard let state = state(parser), let at else { return failure }
    return state.pointee.addValue(at, length)
}

private func parserFinishedHead(_ parser: Parser?) -> Int32 {
    state(parser)?.pointee.finishHead() ?? failure
}

private func parserFoundBody(_ parser: Parser?, _ at: UnsafePointer<CChar>?, _ length: Int) -> Int32 {
    guard let state = state(parser), let at else { return failure }
    return state.pointee.addBody(at, length)
}

/// Stops exactly behind the message: what the client sent on stays where it is until the answer is out.
private func parserFinishedMessage(_ parser: Parser?) -> Int32 {
    Int32(HPE_PAUSED.rawValue)
}
