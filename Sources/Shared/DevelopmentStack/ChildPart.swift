/// A part of the stack that is one program of ours.
public final class ChildPart: StackPart {
    /// How to see that it is ready.
    public enum Readiness: Sendable {
        /// `/readyz` on the admin address answers 200.
        case admin
        /// A text appears in its log.
        case logLine(String)
        /// A file appears; it is removed before each start.
        case file(String)
    }

    public let name: String
    public let stage: Int
    public let address: String?
    public let adminAddress: String?
    private let launch: ChildProcess.Launch
    private let readiness: Readiness
    private var child: ChildProcess?
    private var logStart: UInt64 = 0

    public init(
        name: String,
        stage: Int,
        address: String? = nil,
        adminAddress: String? = nil,
        launch: ChildProcess.Launch,
        readiness: Readiness
    ) {
        self.name = name
        self.stage = stage
        self.address = address
        self.adminAddress = adminAddress
        self.launch = launch
        self.readiness = readiness
    }

    public var logPath: String { launch.logPath }
    public var process: ProcessIdentity? { child?.identity }

    public func start() throws(StackFailure) {
        if case .file(let path) = readiness { removeFile(path) }
        logStart = LogFile(path: launch.logPath).size
        child = try ChildProcess.start(launch)
    }

    public func poll() -> ProcessEnd? { child?.poll() }

    public func isReady() -> Bool {
        switch readiness {
        case .admin: adminAddress.map { HTTPCall.isReady(adminAddress: $0) } ?? true
        case .logLine(let text): LogFile(path: launch.logPath).contains(text, from: logStart)
        case .file(let path): fileExists(path)
        }
    }

    public func terminate() { child?.terminate() }
    public func kill() { child?.kill() }
}
