import Foundation
import TestSupport

/// What a worker tells its operators.
extension ServiceProcess {
    private func adminPort() throws -> UInt16 {
        let address = try waitForLog("admin listening", key: "address")
        guard let port = address.split(separator: ":").last.flatMap({ UInt16($0) }) else {
            throw Eventually.TimedOut(what: "an address with a port")
        }
        return port
    }

    /// The status of `/readyz`.
    func readiness() throws -> Int {
        try HTTPConnection(port: adminPort()).request("GET", "/readyz").status
    }

    /// The value of a metric, written as Prometheus does, with its labels; nil where there is none.
    func metric(_ name: String) throws -> Double? {
        let text = try HTTPConnection(port: adminPort()).request("GET", "/metrics").body
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line.flatMap { Double($0.dropFirst(name.count + 1)) }
    }

    /// How many lines of the log hold all of these.
    func lines(_ parts: String...) -> Int {
        output.split(separator: "\n").count { line in parts.allSatisfy { line.contains($0) } }
    }
}
