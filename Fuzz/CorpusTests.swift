import Foundation
import Testing

/// The inputs that fuzzing is begun with, and those that once broke something, through the same entry as in the fuzzer.
struct CorpusTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../Tests/Fixtures/fuzz").standardizedFileURL

    private static func names(in folder: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    @Test(arguments: FuzzTargetKind.allCases)
    func `every kept input is read without a finding`(kind: FuzzTargetKind) throws {
        let target = try kind.makeTarget()
        let folder = Self.folder.appending(path: kind.rawValue)
        let names = try Self.names(in: folder)
        #expect(!names.isEmpty)
        for name in names {
            let input = Array(try Data(contentsOf: folder.appending(path: name)))
            // Twice: a target keeps its readers, as the service does.
            for _ in 0..<2 {
                do {
                    try input.withUnsafeBytes { try target.run($0) }
                } catch {
                    Issue.record("\(kind.rawValue)/\(name): \(error)")
                }
            }
        }
    }

    @Test func `every folder of inputs has its target`() throws {
        #expect(try Self.names(in: Self.folder) == FuzzTargetKind.allCases.map(\.rawValue).sorted())
    }

    @Test func `the script knows every target`() throws {
        let script = try String(contentsOf: Self.folder.appending(path: "../../../Scripts/fuzz"), encoding: .utf8)
        let names = FuzzTargetKind.allCases.map(\.rawValue).joined(separator: " ")
        #expect(script.contains("targets=(\(names))\n"))
    }
}
