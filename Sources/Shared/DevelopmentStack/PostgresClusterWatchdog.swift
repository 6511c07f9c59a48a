/// The shell between this process and the server, and the server's settings.
enum PostgresWatchdog {
    /// Arguments: the cluster's folder, its password's file, the socket's folder, the signal that stops the server, then
    /// the server's command.
    ///
    /// The reading loop ends when the other end of the pipe is closed, by `stop()` or by the end of the process.
    private static let script = """
        folder=$1 password=$2 sockets=$3 signal=$4; shift 4
        exec 3<&0
        "$@" </dev/null 3<&- &
        server=$!
        {
            while read -r line; do :; done
            kill -s "$signal" "$server"
            seconds=0
            while kill -0 "$server" 2>/dev/null && [ "$seconds" -lt 25 ]; do sleep 1; seconds=$((seconds + 1)); done
            kill -s QUIT "$server" 2>/dev/null
        } <&3 &
        guard=$!
        exec 3<&-
        wait "$server"
        kill "$guard" 2>/dev/null
        case $sockets in "$folder"/*) ;; *) rm -rf "$sockets" ;; esac
        if [ "$signal" = QUIT ]; then
            rm -rf "$folder" "$password"
            rmdir "${password%/*}" 2>/dev/null
        fi
        """

    static func command(
        _ location: PostgresClusterLocation,
        _ mode: PostgresCluster.Mode,
        socketDirectory: String,
        server: [String]
    ) -> [String] {
        let signal = mode == .disposable ? "QUIT" : "INT"
        return [
            "/bin/sh", "-c", script, "daybook-postgres", location.directory, location.passwordFile, socketDirectory,
            signal,
        ] + server
    }

    static func settings(_ mode: PostgresCluster.Mode, port: UInt16, socketDirectory: String) -> [String] {
        var settings = [
            "port=\(port)",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=\(socketDirectory)",
            "unix_socket_permissions=0700",
            "max_connections=200",
            "log_destination=stderr",
            "logging_collector=off",
            "log_timezone=UTC",
            "timezone=UTC",
            "lc_messages=C",
            // Statements and details may quote values, which have no place in a log.
            "log_min_error_statement=panic",
            "log_error_verbosity=terse",
        ]
        if mode == .disposable {
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_wal_size=2GB"]
        }
        return settings.flatMap { ["-c", $0] }
    }
}
