/// Where the keys of tokens come from; their keys are joined.
public struct KeySources: Sendable {
    /// Shared secrets of HS256, as they are.
    public var secrets: [[UInt8]] = []
    /// Files that hold such a secret, maybe with a line feed behind it.
    public var secretFiles: [String] = []
    /// Files with public keys or certificates in PEM.
    public var pemFiles: [String] = []
    /// A file with a JWKS.
    public var jwksFile: String?
    /// Where a JWKS is fetched; `https://`, or `http://` on this machine.
    public var jwksURL: String?
    /// How often it is fetched, in seconds.
    public var refreshSeconds = 300

    public init() {}

    /// A kind of source, as metrics name it.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case secretFile = "secret_file"
        case pemFile = "pem_file"
        case jwksFile = "jwks_file"
        case jwksURL = "jwks_url"
    }

    /// The files, in the order in which their keys are joined.
    var files: [(kind: Kind, path: String)] {
        secretFiles.map { (.secretFile, $0) } + pemFiles.map { (.pemFile, $0) }
            + [jwksFile].compactMap { $0 }.map {
                (.jwksFile, $0)
            }
    }
}

/// Gets a document over the network. Blocks; called on the keeper's thread.
public protocol KeyFetcher: Sendable {
    /// - Throws: `KeyFetchFailure`, whose text must hold nothing of what was received.
    func fetch(_ url: String, isCancelled: @escaping @Sendable () -> Bool) throws(KeyFetchFailure) -> [UInt8]
}

public struct KeyFetchFailure: Error, Sendable {
    public let description: String

    public init(_ description: String) {
        self.description = description
    }
}

/// One file of keys: read as a whole each time, since it is small and a clock's tick could hide a change.
struct KeyFile {
    let kind: KeySources.Kind
    let path: String
    private(set) var keys = KeySet()
    /// What the last look found, good or not.
    private var content: [UInt8]?
    private var failure: KeyFailure?

    enum Change {
        case none
        /// Other keys than before.
        case keys
        /// Broken, and was not so at the last look: the old keys stay.
        case broken(KeyFailure)
    }

    init(_ kind: KeySources.Kind, _ path: String) {
        self.kind = kind
        self.path = path
    }

    var isBroken: Bool { failure != nil }

    mutating func look() -> Change {
        let before = (content: content, failure: failure)
        content = readSmallFile(path)
        guard let content else {
            failure = KeyFailure(.cannotRead)
            return before.failure == failure ? .none : .broken(KeyFailure(.cannotRead))
        }
        guard content != before.content else { return .none }
        do throws(KeyFailure) {
            let new = try Self.parse(content, kind)
            failure = nil
            guard new != keys else { return .none }
            keys = new
            return .keys
        } catch {
            failure = error
            return .broken(error)
        }
    }

    private static func parse(_ content: [UInt8], _ kind: KeySources.Kind) throws(KeyFailure) -> KeySet {
        switch kind {
        case .secretFile:
            var secret = content
            // Editors and `echo` end files with a line feed that is no part of the secret.
            while let last = secret.last, last == 10 || last == 13 { secret.removeLast() }
            return try KeySet(secrets: [secret])
        case .pemFile: return try KeySet(pem: content)
        case .jwksFile: return try KeySet(jwks: content, allowsSecrets: true)
        case .jwksURL: throw KeyFailure(.cannotRead)
        }
    }
}
