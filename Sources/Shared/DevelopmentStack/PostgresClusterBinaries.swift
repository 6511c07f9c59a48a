import Foundation

/// Where PostgreSQL's programs are.
struct PostgresClusterBinaries {
    let directory: String

    var initdb: String { directory + "/initdb" }
    var postgres: String { directory + "/postgres" }

    /// Existing data needs the release that made it; new data takes 15, then the newest one that Debian's layout has,
    /// then whatever PATH gives.
    static func find(dataMajor: String?) throws -> PostgresClusterBinaries {
        if let dataMajor {
            for directory in candidates(first: dataMajor) where major(of: directory) == dataMajor {
                return PostgresClusterBinaries(directory: directory)
            }
            throw PostgresClusterError(
                "the data was made by PostgreSQL \(dataMajor), which is not installed: install postgresql-\(dataMajor), "
                    + "or start with --fresh to begin with an empty database"
            )
        }
        guard let directory = candidates(first: "15").first else {
            throw PostgresClusterError(
                "PostgreSQL's server programs (initdb, postgres) are not installed: " + PostgresClusterError.packageHint
            )
        }
        return PostgresClusterBinaries(directory: directory)
    }

    private static func candidates(first: String) -> [String] {
        let root = "/usr/lib/postgresql"
        let majors = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? [])
            .compactMap(Int.init).sorted(by: >).map(String.init)
        let fromPath = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return (([first] + majors).map { "\(root)/\($0)/bin" } + fromPath).filter { directory in
            ["initdb", "postgres"].allSatisfy { FileManager.default.isExecutableFile(atPath: "\(directory)/\($0)") }
        }
    }

    private static func major(of directory: String) -> String? {
        let parts = directory.split(separator: "/")
        if directory.hasPrefix("/usr/lib/postgresql/"), parts.count == 5 { return String(parts[3]) }
        // "postgres (PostgreSQL) 15.6 (Debian …)"
        let output = PostgresClusterProcess.run([directory + "/postgres", "--version"]).output
        let words = output.split(separator: " ")
        return words.count > 2 ? words[2].split(separator: ".").first.map(String.init) : nil
    }
}
