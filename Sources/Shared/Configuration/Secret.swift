/// Text that is never shown: printing, interpolating, dumping or reflecting it gives `***`. Only `reveal()` gives it
/// away, and belongs where it is handed to the library that needs it.
public struct Secret: Sendable {
    private let text: String

    public init(_ text: String) {
        self.text = text
    }

    public func reveal() -> String {
        text
    }

    public var isEmpty: Bool { text.isEmpty }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "***" }
    public var debugDescription: String { "***" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
