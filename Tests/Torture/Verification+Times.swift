import Postgres

/// Times that depend on the order of things.
struct TableTimes {
    /// `last_data_at` by connection, 0 for never.
    var lastData: [String: Int64] = [:]
    /// `due_at` by user.
    var due: [String: Int64] = [:]
}

extension TableReader {
    func times() throws -> TableTimes {
        var times = TableTimes()
        let connections = try connection.executeUnprepared(
            "SELECT user_id::text, source, origin, last_data_at FROM connections"
        )
        for row in 0..<connections.rowCount {
            let source = ModelSource.names[Int(try connections.int2(row, 1))]
            let name = "\(try connections.text(row, 0)) \(source) '\(try connections.text(row, 2))'"
            times.lastData[name] = try connections.int8(row, 3)
        }
        let schedule = try connection.executeUnprepared("SELECT user_id::text, due_at FROM wake_schedule")
        for row in 0..<schedule.rowCount { times.due[try schedule.text(row, 0)] = try schedule.int8(row, 1) }
        return times
    }
}

extension TableTimes {
    /// What the log does not allow: where, never a time.
    func violations(_ model: Model) -> [String] {
        var found: [String] = []
        for (name, bounds) in model.times.lastData(model) {
            // A connection that is missing is told of with the tables.
            guard let time = lastData[name] else { continue }
            if let earliest = bounds.earliest, time < earliest {
                found.append("connections [\(name)] last_data_at is before a stored value came")
            } else if time != 0 && !bounds.possible.contains(time) {
                found.append("connections [\(name)] last_data_at is of no record with values")
            }
        }
        let wakes = model.times.wakes(model)
        for (user, bounds) in wakes {
            guard let time = due[user] else {
                if bounds.latest != nil { found.append("wakeSchedule [\(user)] missing, though a phone is connected") }
                continue
            }
            if !bounds.mayBe {
                found.append("wakeSchedule [\(user)] is there, without any connection")
            } else if !bounds.possible.contains(time) {
                found.append("wakeSchedule [\(user)] due_at follows from no push of a phone")
            } else if let latest = bounds.latest, time > latest {
                found.append("wakeSchedule [\(user)] due_at is later than a spacing after the last push")
            }
        }
        for user in due.keys where wakes[user] == nil {
            found.append("wakeSchedule [\(user)] is of a user who is not in the log")
        }
        return found.sorted()
    }
}
