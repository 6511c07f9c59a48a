import Glibc

/// How a program ended, after BSD's sysexits, so that scripts and supervisors can tell why.
public enum ExitCode {
    public static let ok: Int32 = 0
    /// A check that the caller asked for did not hold.
    public static let failure: Int32 = 1
    public static let usage: Int32 = 64
    public static let dataError: Int32 = 65
    /// A server that is needed could not be reached.
    public static let unavailable: Int32 = 69
    /// A mistake of ours.
    public static let software: Int32 = 70
    public static let operatingSystem: Int32 = 71
    public static let cannotCreate: Int32 = 73
    public static let inputOutput: Int32 = 74
    /// Worth trying again as it is.
    public static let temporaryFailure: Int32 = 75
    public static let noPermission: Int32 = 77
    public static let configuration: Int32 = 78
    /// The grace period ended before everything had stopped; what was in flight will be done again.
    public static let graceExpired: Int32 = 80
}

public enum Terminal {
    /// Whether a person is likely to be reading what is written there (1 is standard output, 2 standard error).
    public static func isTTY(_ descriptor: Int32 = 1) -> Bool {
        isatty(descriptor) == 1
    }

    /// Whether to use colours: on a terminal, unless `NO_COLOR` is set (https://no-color.org) or `TERM` is `dumb`.
    public static func usesColor(_ descriptor: Int32 = 1) -> Bool {
        guard isTTY(descriptor) else { return false }
        if let noColor = getenv("NO_COLOR"), noColor.pointee != 0 { return false }
        guard let term = getenv("TERM") else { return false }
        return String(cString: term) != "dumb"
    }
}
