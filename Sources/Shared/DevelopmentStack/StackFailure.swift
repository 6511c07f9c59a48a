/// Why the local stack could not do something, and what helps.
public struct StackFailure: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable {
        /// Another `daybook up` holds the state folder.
        case alreadyRunning
        case portTaken
        case noSpace
        case noPermission
        /// A program could not be started at all.
        case cannotStart
        /// A part ended, or did not become ready in time.
        case notReady
        case unreadableState
        case cannotCreate
    }

    public let code: Code
    public let message: String
    /// What the reader can do next.
    public let nextStep: String

    public init(_ code: Code, _ message: String, next nextStep: String) {
        self.code = code
        self.message = message
        self.nextStep = nextStep
    }

    public var description: String { "\(message). \(nextStep)" }
}
