import Foundation

/// A certificate authority of a test's own, made by the program `openssl`. Its files lie in one folder.
public struct CertificateAuthority: Sendable {
    public let folder: String

    /// What clients hold servers' certificates against.
    public var certificatePath: String { folder + "/ca.pem" }

    /// A certificate and its key, both as PEM (the key as PKCS #8).
    public struct Issued: Sendable {
        public let certificatePath: String
        public let keyPath: String
    }

    public init() throws {
        folder = NSTemporaryDirectory() + "daybook-authority-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try openssl(
            ["req", "-x509"] + Self.newKey + [
                "-days", "2", "-subj", "/CN=Daybook test authority", "-addext", "basicConstraints=critical,CA:true",
                "-keyout", folder + "/ca.key", "-out", certificatePath,
            ]
        )
    }

    /// For a server on 127.0.0.1.
    public func issue(_ name: String) throws -> Issued {
        let path = "\(folder)/\(name)"
        try openssl(["req"] + Self.newKey + ["-subj", "/CN=\(name)", "-keyout", path + ".key", "-out", path + ".csr"])
        try "subjectAltName=IP:127.0.0.1,DNS:localhost\n".write(
            toFile: path + ".ext",
            atomically: true,
            encoding: .utf8
        )
        try openssl([
            "x509", "-req", "-in", path + ".csr", "-CA", certificatePath, "-CAkey", folder + "/ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", path + ".ext", "-out", path + ".pem",
        ])
        return Issued(certificatePath: path + ".pem", keyPath: path + ".key")
    }

    public func remove() {
        try? FileManager.default.removeItem(atPath: folder)
    }

    private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    private func openssl(_ arguments: [String]) throws {
        try run("/usr/bin/openssl", arguments, log: folder + "/openssl.log")
    }
}
