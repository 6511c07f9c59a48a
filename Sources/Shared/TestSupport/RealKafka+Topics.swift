import Foundation

/// What operators change of topics, with Kafka's own tools.
extension RealKafka {
    /// More partitions of all topics whose names match.
    public func alterPartitions(of pattern: String, to count: Int) throws {
        let words = ["--bootstrap-server", bootstrapServers, "--alter", "--topic", pattern]
        try launcher.tool("topics", words + ["--partitions", "\(count)"])
    }

    /// Sets one of a topic's settings.
    public func alter(_ topic: String, _ setting: String, to value: String) throws {
        try launcher.tool(
            "configs",
            ["--bootstrap-server", bootstrapServers, "--alter", "--entity-type", "topics", "--entity-name", topic]
                + ["--add-config", "\(setting)=\(value)"]
        )
    }

    /// Keeps a topic's partitions on these nodes from now on; returns before they have caught up.
    public func replicate(_ topic: String, partitions: Int, over nodes: [Int]) throws {
        let places = (0..<partitions).map { partition in
            // Leaders are spread.
            let turned = nodes.indices.map { "\(nodes[($0 + partition) % nodes.count])" }.joined(separator: ",")
            return #"{"topic":"\#(topic)","partition":\#(partition),"replicas":[\#(turned)]}"#
        }
        let path = directory + "/reassignment-\(UUID().uuidString.prefix(8)).json"
        try #"{"version":1,"partitions":[\#(places.joined(separator: ","))]}"#
            .write(toFile: path, atomically: true, encoding: .utf8)
        try launcher.tool(
            "reassign-partitions",
            ["--bootstrap-server", bootstrapServers, "--reassignment-json-file", path, "--execute"]
        )
    }
}
