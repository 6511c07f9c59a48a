internal import Domain
internal import Postgres

/// The arrays of statements about device tokens.
extension BatchArrays {
    mutating func load(hashes: [DeviceTokenHash], into parameters: inout PostgresParameters) {
        blobs.reset()
        for hash in hashes { blobs.append(bytea: hash.bytes.span) }
        parameters.reset()
        parameters.append(blobs)
    }

    mutating func load(devices writes: [BatchWrites.DeviceWrite], into parameters: inout PostgresParameters) {
        resetDevices()
        buckets.reset()
        moreLongs.reset()
        for index in texts.indices { texts[index].reset() }
        for write in writes {
            append(write.key)
            buckets.append(int2: write.bucket)
            longs.append(int8: write.entry.registered.rawValue)
            moreLongs.append(int8: write.entry.withdrawn.rawValue)
            for (index, text) in DeviceRowReader.values(of: write.entry.registration).enumerated() {
                if let text { texts[index].append(text: text) } else { texts[index].appendNull() }
            }
        }
        parameters.reset()
        parameters.append(blobs)
        parameters.append(users)
        parameters.append(buckets)
        parameters.append(longs)
        parameters.append(moreLongs)
        for array in texts { parameters.append(array) }
    }

    mutating func load(
        outdated entries: [(key: DeviceKey, newer: Version)],
        into parameters: inout PostgresParameters
    ) {
        resetDevices()
        for entry in entries {
            append(entry.key)
            longs.append(int8: entry.newer.rawValue)
        }
        parameters.reset()
        parameters.append(blobs)
        parameters.append(users)
        parameters.append(longs)
    }

    private mutating func resetDevices() {
        blobs.reset()
        users.reset()
        longs.reset()
    }

    private mutating func append(_ key: DeviceKey) {
        blobs.append(bytea: key.hash.bytes.span)
        users.append(uuidHigh: key.user.high, low: key.user.low)
    }
}
