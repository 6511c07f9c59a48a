internal import Domain
internal import Postgres

/// The arrays of the statement that replaces days unread.
extension BatchArrays {
    /// Days that come behind one another in one reading's record are one range. What differs from day to day stands in
    /// arrays without NULLs, where an element is found at once: the day, less the range's base, is the place, from 1.
    mutating func load(
        replacements list: [BatchWrites.Replacement],
        rules: Int32,
        into parameters: inout PostgresParameters
    ) {
        loadRanges(of: list)
        closed.reset()
        stored.reset()
        counts.reset()
        flags.reset()
        closed.append(
            list.count,
            int4: { index in
                list[index].reading.closed ? Int32(bitPattern: list[index].reading.values.mask.rawValue) : 0
            }
        )
        stored.append(list.count, int4: { Int32(clamping: list[$0].storedCount) })
        counts.append(list.count, int4: { Int32(clamping: list[$0].reading.values.mask.count) })
        var used: MetricSet = []
        for index in list.indices {
            let mask = list[index].reading.values.mask
            used.formUnion(mask)
            let source = list[index].provenance.source
            flags.append(bool: CanonicalDay.isFinal(mask, closed: list[index].reading.closed, of: source))
        }
        for metric in Metric.allCases { values[metric.index].reset() }
        for metric in used {
            values[metric.index].append(
                list.count,
                float4: { MetricColumns.real(list[$0].reading.values[metric]) ?? .nan }
            )
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(days)
        parameters.append(lastDays)
        parameters.append(bases)
        parameters.append(sources)
        parameters.append(origins)
        parameters.append(longs)
        parameters.append(blobs)
        parameters.append(winnerOrigins)
        parameters.append(closed)
        parameters.append(stored)
        parameters.append(counts)
        parameters.append(flags)
        parameters.append(int4: rules)
        for metric in Metric.allCases { parameters.append(values[metric.index]) }
    }

    private mutating func loadRanges(of list: [BatchWrites.Replacement]) {
        resetKeys()
        lastDays.reset()
        bases.reset()
        longs.reset()
        blobs.reset()
        winnerOrigins.reset()
        var winners: [UInt8] = []
        var start = 0
        while start < list.count {
            let first = list[start]
            var end = start + 1
            while end < list.count && Self.follows(list[end], list[end - 1]) { end += 1 }
            users.append(uuidHigh: first.key.user.high, low: first.key.user.low)
            days.append(date: first.key.day.daysSinceEpoch)
            lastDays.append(date: list[end - 1].key.day.daysSinceEpoch)
            bases.append(date: first.key.day.advanced(by: -1 - start).daysSinceEpoch)
            append(first.provenance)
            longs.append(int8: first.reading.version.rawValue)
            // As many of them as the day has values are taken.
            let source = first.provenance.source.rawValue
            if winners.first != source { winners = Array(repeating: source, count: Metric.count) }
            blobs.append(bytea: winners.span)
            if first.provenance.origin.isEmpty {
                winnerOrigins.appendNull()
            } else {
                var text: [UInt8] = []
                Self.appendArrayText(of: Array(repeating: first.provenance, count: Metric.count), to: &text)
                winnerOrigins.append(text: text.span)
            }
            start = end
        }
    }

    private static func follows(_ next: BatchWrites.Replacement, _ last: BatchWrites.Replacement) -> Bool {
        next.key.day.days(since: last.key.day) == 1 && next.key.user == last.key.user
            && next.reading.version == last.reading.version && next.provenance == last.provenance
    }
}
