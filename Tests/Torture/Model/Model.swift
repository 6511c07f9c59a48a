import Foundation

/// The truth: what the tables have to mean once every record of the log is applied, whatever happened on the way.
///
/// One naive register a metric, no window, no batch, no order: each record is remembered by the largest version, and
/// the watermarks of deletions are laid over the registers at the end.
struct Model {
    struct Register: Comparable {
        let version: Int64
        let tenths: Int
        let isClosed: Bool

        static func < (left: Register, right: Register) -> Bool {
            (left.version, left.tenths, left.isClosed ? 1 : 0)
                < (right.version, right.tenths, right.isClosed ? 1 : 0)
        }
    }

    struct RowKey: Hashable {
        let user: Int
        let day: Int
        let source: Int
        let origin: Int

        var connection: ConnectionKey { ConnectionKey(user: user, source: source, origin: origin) }
    }

    struct ConnectionKey: Hashable {
        let user: Int
        let source: Int
        let origin: Int
    }

    struct UserSource: Hashable {
        let user: Int
        let source: Int
    }

    private struct Pin {
        var version: Int64
        var source: Int
    }

    private struct Account {
        var deleted: Int64 = 0
        var pins: [Int: Pin] = [:]
    }

    struct SourceState {
        var deleted: Int64 = 0
        var disconnectedAt: Int64 = 0
    }

    private struct Device {
        var registered: Int64 = 0
        var details = ""
        var withdrawn: Int64 = 0
    }

    private(set) var users = Interned()
    private(set) var origins = Interned()
    private(set) var times = ModelTimes()
    private(set) var rows: [RowKey: [Int: Register]] = [:]
    private(set) var lastPush: [ConnectionKey: Int64] = [:]
    private var accounts: [Int: Account] = [:]
    private(set) var sources: [UserSource: SourceState] = [:]
    /// By the token's hash, then by user.
    private var devices: [String: [Int: Device]] = [:]
    private let decoder: ModelDecoder
    /// Days before it are dropped, as days since 1970.
    private let floor: Int

    /// Records that have to be dead letters, as topic/partition/offset.
    private(set) var poison: Set<String> = []
    private(set) var counts = Counts()

    struct Counts {
        var records = 0
        var heartbeats = 0
        var days = 0
        var deletions = 0
        var disconnects = 0
        var pins = 0
        var devices = 0
        var tooManyOrigins = 0
        /// Values that a later record of the same day did not mention.
        var leftOut = 0
    }

    /// A register that a deletion hides: its row, its metric and the watermark.
    struct Hidden {
        let row: String
        let metric: String
        let watermark: Int64
    }

    static let maximumOrigins = 32

    init(floor: Int, believesAppendTimes: Bool) {
        self.floor = floor
        decoder = ModelDecoder(believesAppendTimes: believesAppendTimes)
    }

    /// Takes a record in; those of one partition have to come in the order of the log, for the one place where order
    /// can matter (too many origins).
    mutating func apply(_ record: LogRecord) {
        counts.records += 1
        switch decoder.decode(record) {
        case .heartbeat: counts.heartbeats += 1
        case .poison: poison.insert(record.place)
        case .days(let days): apply(days, record)
        case .account(let change): apply(change)
        case .device(let device): apply(device)
        }
    }

    private mutating func apply(_ record: ModelDecoder.Device) {
        counts.devices += 1
        let user = users.number(of: record.user)
        if accounts[user] == nil { accounts[user] = Account() }
        var device = devices[record.hash]?[user] ?? Device()
        if let details = record.details {
            if (record.version, details) > (device.registered, device.details) {
                (device.registered, device.details) = (record.version, details)
            }
        } else {
            device.withdrawn = max(device.withdrawn, record.version)
        }
        devices[record.hash, default: [:]][user] = device
    }

    private mutating func apply(_ record: ModelDecoder.Days, _ raw: LogRecord) {
        let user = users.number(of: record.user)
        let key = ConnectionKey(user: user, source: record.source, origin: origins.number(of: record.origin))
        if lastPush[key] == nil {
            let held = lastPush.keys.count { $0.user == user && $0.source == record.source }
            guard held < Self.maximumOrigins else {
                counts.tooManyOrigins += 1
                poison.insert(raw.place)
                return
            }
        }
        if accounts[user] == nil { accounts[user] = Account() }
        lastPush[key] = max(lastPush[key] ?? 0, record.receivedAt)
        times.notePush(key, record.receivedAt)
        for day in record.days where day.date >= floor {
            counts.days += 1
            let rowKey = RowKey(user: user, day: day.date, source: record.source, origin: key.origin)
            counts.leftOut += rows[rowKey]?.keys.count { day.values[$0] == nil } ?? 0
            for (metric, tenths) in day.values {
                let register = Register(
                    version: record.version,
                    tenths: tenths,
                    isClosed: day.date < record.localDate
                )
                times.note(register, of: metric, in: rowKey, record.receivedAt)
                if let held = rows[rowKey]?[metric], held >= register { continue }
                rows[rowKey, default: [:]][metric] = register
            }
        }
    }

    private mutating func apply(_ change: ModelDecoder.Change) {
        let user = users.number(of: change.user)
        var account = accounts[user] ?? Account()
        let watermark = ModelDecoder.version(at: change.receivedAt + 60_000_000, tie: 0)
        switch change.kind {
        case .delete:
            counts.deletions += 1
            account.deleted = max(account.deleted, watermark)
        case .disconnect(let source, let removesData):
            counts.disconnects += 1
            var state = sources[UserSource(user: user, source: source)] ?? SourceState()
            state.disconnectedAt = max(state.disconnectedAt, change.receivedAt)
            if removesData { state.deleted = max(state.deleted, watermark) }
            sources[UserSource(user: user, source: source)] = state
        case .preference(let metric, let source):
            counts.pins += 1
            let held = account.pins[metric] ?? Pin(version: 0, source: 0)
            if (change.version, source) > (held.version, held.source) {
                account.pins[metric] = Pin(version: change.version, source: source)
            }
        }
        accounts[user] = account
    }

    /// What the tables have to hold now.
    func state() -> TableState {
        var state = TableState()
        for (user, account) in accounts {
            var columns = ["deleted": "\(account.deleted)"]
            for (metric, pin) in account.pins where pin.version >= account.deleted {
                columns["pin.\(ModelMetric.all[metric].name)"] = "\(pin.source)/\(pin.version)"
            }
            state.set(.accounts, users.names[user], columns)
        }
        for (key, source) in sources {
            state.set(
                .accountSources,
                "\(users.names[key.user]) \(ModelSource.names[key.source])",
                ["deleted": "\(source.deleted)", "disconnected_at": "\(source.disconnectedAt)"]
            )
        }
        for (key, push) in lastPush where push >= instant(of: watermark(key.user, key.source)) {
            state.set(.connections, name(of: key), ["last_push_at": "\(push)"])
        }
        addDevices(to: &state)
        addDays(to: &state)
        return state
    }

    /// The owner of a token is whoever registered it last; everybody else's entry holds versions only, and so does the
    /// owner's, once withdrawn or deleted.
    private func addDevices(to state: inout TableState) {
        for (hash, entries) in devices {
            let newest = entries.values.map(\.registered).max() ?? 0
            for (user, device) in entries {
                let isLive =
                    device.registered == newest && device.registered > device.withdrawn
                    && device.registered >= accounts[user]?.deleted ?? 0
                let columns = [
                    "registered": "\(device.registered)", "withdrawn": "\(device.withdrawn)",
                    "details": isLive ? device.details : "",
                ]
                state.set(.devices, "\(users.names[user]) \(hash)", columns)
            }
        }
    }

    private struct DayKey: Hashable {
        let user: Int
        let day: Int
    }

    private func addDays(to state: inout TableState) {
        var candidates: [DayKey: [Int: [ModelCandidate]]] = [:]
        for (key, registers) in rows {
            let watermark = watermark(key.user, key.source)
            var columns: [String: String] = [:]
            for (metric, register) in registers where register.version >= watermark {
                columns[ModelMetric.all[metric].name] =
                    "\(register.tenths)/\(register.version)/\(register.isClosed ? 1 : 0)"
                candidates[DayKey(user: key.user, day: key.day), default: [:]][metric, default: []].append(
                    ModelCandidate(
                        source: key.source,
                        origin: origins.names[key.origin],
                        tenths: register.tenths,
                        isClosed: register.isClosed
                    )
                )
            }
            if columns.isEmpty { continue }
            state.set(.sourceDays, name(of: key), columns)
        }
        for (key, metrics) in candidates {
            var columns: [String: String] = [:]
            var measured: [ModelCandidate] = []
            for (metric, candidates) in metrics {
                let definition = ModelMetric.all[metric]
                guard let winner = ModelResolution.winner(definition, candidates, pin: pin(key.user, metric)) else {
                    continue
                }
                columns[definition.name] = "\(winner.tenths)/\(winner.source)/\(winner.origin)"
                if definition.isCumulative && ModelSource.isDeviceOrCloud(winner.source) { measured.append(winner) }
            }
            columns["final"] = !measured.isEmpty && measured.allSatisfy(\.isClosed) ? "1" : "0"
            state.set(.canonicalDays, "\(users.names[key.user]) \(ModelDecoder.text(ofDay: key.day))", columns)
        }
    }

    private func name(of key: RowKey) -> String {
        "\(users.names[key.user]) \(ModelDecoder.text(ofDay: key.day)) \(ModelSource.names[key.source]) "
            + "'\(origins.names[key.origin])'"
    }

    func name(of key: ConnectionKey) -> String {
        "\(users.names[key.user]) \(ModelSource.names[key.source]) '\(origins.names[key.origin])'"
    }

    /// What must not be in the tables, since it is older than a deletion.
    func hidden() -> [Hidden] {
        var hidden: [Hidden] = []
        for (key, registers) in rows {
            let watermark = watermark(key.user, key.source)
            if watermark == 0 { continue }
            for (metric, register) in registers where register.version < watermark {
                hidden.append(Hidden(row: name(of: key), metric: ModelMetric.all[metric].name, watermark: watermark))
            }
        }
        return hidden
    }

    func watermark(_ user: Int, _ source: Int) -> Int64 {
        max(accounts[user]?.deleted ?? 0, sources[UserSource(user: user, source: source)]?.deleted ?? 0)
    }

    /// Microseconds since 1970 that a version stands for.
    func instant(of version: Int64) -> Int64 { ModelDecoder.beginning + version >> 12 }

    private func pin(_ user: Int, _ metric: Int) -> Int? {
        guard let account = accounts[user], let pin = account.pins[metric], pin.version >= account.deleted else {
            return nil
        }
        return pin.source == 0 ? nil : pin.source
    }
}

/// Texts as small numbers.
struct Interned {
    private(set) var names: [String] = []
    private var numbers: [String: Int] = [:]

    mutating func number(of name: String) -> Int {
        if let number = numbers[name] { return number }
        numbers[name] = names.count
        names.append(name)
        return names.count - 1
    }
}
