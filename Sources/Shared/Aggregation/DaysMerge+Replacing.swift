internal import Domain
internal import MessageContract
public import Storage

/// Days that a reading replaces whole, without their rows being read. For a day that changes that is the rule: the user has
/// one connection, so that the row is the day's only one; the window says which metrics were read last, and with which
/// version; the reading is newer and has them all. Then the row becomes the reading, if it has no other metrics and all of
/// one version, and the canonical day is the same. Whether the row is so the statement that writes looks itself.
extension DaysMerge {
    /// Puts a replacement off after all: the row is read, and everything is as if it had not been tried.
    mutating func putOff(replacement number: Int, isMissed: Bool = false) {
        guard !replacements[number].isOff else { return }
        replacements[number].isOff = true
        let item = replacements[number]
        connections[item.connection].forgetReplaced(item.day)
        connections[item.connection].set(item.before, for: item.day)
        putOff(
            Deferred(
                record: item.record,
                reading: item.reading,
                connection: item.connection,
                says: item.says,
                isMissed: isMissed
            )
        )
    }

    /// Puts off what the rest of the batch makes uncertain.
    mutating func settleReplacements() {
        if !crowded.isEmpty {
            for number in replacements.indices where crowded.contains(records[replacements[number].record].user) {
                putOff(replacement: number)
            }
        }
        for connection in connections.indices where !connections[connection].replaced.isEmpty {
            guard let newest = connections[connection].deferred.last else { continue }
            // A day that leaves the window is folded into a row that was read before it would be replaced.
            for day in connections[connection].window.leaving(for: newest) {
                guard let number = connections[connection].replacement(of: day) else { continue }
                putOff(replacement: number)
            }
        }
    }

    /// The numbers of the replacements, in the order of users and in portions of about so many.
    public func replacements(ofDays size: Int) -> [[Int]] {
        var portions: [[Int]] = []
        var portion: [Int] = []
        for run in Self.runs(in: replacements.indices, records, record: { replacements[$0].record }) {
            let start = portion.count
            var areSorted = true
            for number in run.places where !replacements[number].isOff {
                if portion.count > start, replacements[number].day < replacements[portion[portion.count - 1]].day {
                    areSorted = false
                }
                portion.append(number)
            }
            // Days that come one behind the other are one range.
            if !areSorted { portion[start...].sort { replacements[$0].day < replacements[$1].day } }
            guard portion.count >= size else { continue }
            portions.append(portion)
            portion = []
            portion.reserveCapacity(size)
        }
        if !portion.isEmpty { portions.append(portion) }
        return portions
    }

    /// What is written for a portion.
    public func days(ofReplacements portion: [Int]) -> [BatchWrites.Replacement] {
        portion.map { number in
            let item = replacements[number]
            let reading = records[item.record].readings[item.reading]
            return BatchWrites.Replacement(
                key: UserDay(user: records[item.record].user, day: reading.day),
                provenance: connections[item.connection].key.provenance,
                reading: reading,
                storedCount: item.before.mask.count
            )
        }
    }

    /// For a reading whose replacement was not met with the row as expected.
    ///
    /// - Returns: whether the row was replaced nonetheless, so that it was the canonical day that was not there.
    mutating func settleMissed(_ item: Deferred, of record: DecodedDays, _ table: inout UserDays) -> Bool {
        let reading = record.readings[item.reading]
        table.force(reading.day, record.provenance)
        guard table.holds(reading, record.provenance) else { return false }
        connections[item.connection].set(item.says, for: reading.day)
        connections[item.connection].noteData(record.receivedAt)
        counts.changed += 1
        return true
    }

    /// Takes note of a portion that was written.
    ///
    /// - Parameters:
    ///   - portion: its numbers.
    ///   - missed: the indexes in it of those that were not as expected. Their rows are read after all.
    /// - Returns: the days of those, which then go through `rows` when nothing else is left to go.
    public mutating func conclude(replacements portion: [Int], missed: [Int]) -> [UserDay] {
        var days: [UserDay] = []
        var next = missed[...]
        // A record's days come one behind the other, and it brings its data once.
        var noted: Int?
        for index in portion.indices {
            let item = replacements[portion[index]]
            if next.first == index {
                next.removeFirst()
                days.append(UserDay(user: records[item.record].user, day: item.day))
                putOff(replacement: portion[index], isMissed: true)
                continue
            }
            guard noted != item.record else { continue }
            noted = item.record
            connections[item.connection].noteData(records[item.record].receivedAt)
        }
        let written = portion.count - days.count
        counts.changed += written
        counts.sourceRowsWritten += written
        counts.canonicalWritten += written
        return days
    }
}
