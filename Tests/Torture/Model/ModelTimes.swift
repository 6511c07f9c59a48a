/// The times that depend on the order in which records were applied: when a value of a connection last changed, and when
/// a user's phone may be woken. The log does not say what they are, but between what bounds they lie, and that each
/// was taken from some record.
struct ModelTimes {
    /// `received-at` of the records with values, by connection.
    private var data: [Model.ConnectionKey: Set<Int64>] = [:]
    /// `received-at` of the pushes of phones, by user.
    private var pushes: [Int: Set<Int64>] = [:]
    /// The earliest record that said so, by row, metric and value.
    private var firstSaid: [UInt64: Int64] = [:]
    private var rowNumbers: [Model.RowKey: UInt64] = [:]

    mutating func notePush(_ key: Model.ConnectionKey, _ receivedAt: Int64) {
        if ModelSource.isPhone(key.source) { pushes[key.user, default: []].insert(receivedAt) }
    }

    mutating func note(_ register: Model.Register, of metric: Int, in row: Model.RowKey, _ receivedAt: Int64) {
        let number = rowNumbers[row] ?? UInt64(rowNumbers.count)
        rowNumbers[row] = number
        let said = Self.said(register, metric, number)
        firstSaid[said] = min(firstSaid[said] ?? .max, receivedAt)
        data[row.connection, default: []].insert(receivedAt)
    }

    private static func said(_ register: Model.Register, _ metric: Int, _ row: UInt64) -> UInt64 {
        row << 32 | UInt64(metric) << 27 | UInt64(register.tenths) << 1 | (register.isClosed ? 1 : 0)
    }

    struct LastData {
        /// A stored value can't have become what it is before this; nil where no value is stored.
        var earliest: Int64?
        var possible: Set<Int64>
    }

    struct Wake {
        /// A phone is connected: its user has to be looked at, no later than a spacing after its last push.
        var latest: Int64?
        /// Without any connection there is nobody to be woken.
        var mayBe: Bool
        var possible: Set<Int64>
    }

    /// Four hours.
    static let spacing: Int64 = 4 * 3600 * 1_000_000

    /// Of every connection that has to be there, by its name in `TableState`.
    func lastData(_ model: Model) -> [String: LastData] {
        var earliest: [Model.ConnectionKey: Int64] = [:]
        for (row, registers) in model.rows {
            guard let number = rowNumbers[row] else { continue }
            let watermark = model.watermark(row.user, row.source)
            for (metric, register) in registers where register.version >= watermark {
                let first = firstSaid[Self.said(register, metric, number)] ?? 0
                earliest[row.connection] = max(earliest[row.connection] ?? 0, first)
            }
        }
        var found: [String: LastData] = [:]
        for key in model.heldConnections {
            found[model.name(of: key)] = LastData(earliest: earliest[key], possible: data[key] ?? [])
        }
        return found
    }

    /// Of every user of the log, by their id.
    func wakes(_ model: Model) -> [String: Wake] {
        var found: [String: Wake] = [:]
        for (user, name) in model.users.names.enumerated() {
            let possible = (pushes[user] ?? []).map { $0 + Self.spacing }
            found[name] = Wake(latest: nil, mayBe: false, possible: Set(possible))
        }
        for key in model.heldConnections {
            let name = model.users.names[key.user]
            found[name]?.mayBe = true
            let push = model.lastPush[key] ?? 0
            let disconnect = model.sources[.init(user: key.user, source: key.source)]?.disconnectedAt ?? 0
            guard ModelSource.isPhone(key.source), push > disconnect else { continue }
            let latest = max(found[name]?.latest ?? 0, push + Self.spacing)
            found[name]?.latest = latest
        }
        return found
    }
}

extension Model {
    /// Connections that pushed after what was deleted of them.
    var heldConnections: [ConnectionKey] {
        lastPush.filter { $0.value >= instant(of: watermark($0.key.user, $0.key.source)) }.map(\.key)
    }
}
