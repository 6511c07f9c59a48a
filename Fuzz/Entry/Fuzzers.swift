// The entry of libFuzzer: one input a call. `Scripts/fuzz` compiles this file and `Targets/` against the modules of the
// service; it is no part of the package, since SwiftPM can't link a fuzzer. DAYBOOK_FUZZ names the target.
import Glibc

/// Made with the first input. libFuzzer calls from one thread.
nonisolated(unsafe) private var target: (any FuzzTarget)?

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOne(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    do {
        let target = try target ?? makeTarget()
        try target.run(UnsafeRawBufferPointer(start: data, count: size))
    } catch {
        // libFuzzer keeps the input of whatever ends the process.
        fatalError("\(error)")
    }
    return 0
}

private func makeTarget() throws -> any FuzzTarget {
    let name = getenv("DAYBOOK_FUZZ").map { String(cString: $0) } ?? ""
    guard let kind = FuzzTargetKind(rawValue: name) else {
        let names = FuzzTargetKind.allCases.map(\.rawValue).joined(separator: ", ")
        fatalError("DAYBOOK_FUZZ must be one of \(names)")
    }
    let made = try kind.makeTarget()
    target = made
    return made
}
