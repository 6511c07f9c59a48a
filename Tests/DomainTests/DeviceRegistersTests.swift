import Domain
import Testing

@Suite struct `The registers of a device token` {
    private let ann = UserID(high: 1, low: 1)
    private let bob = UserID(high: 1, low: 2)
    private let none = Version(rawValue: 0)

    private func device(_ app: String = "app") -> DeviceRegistration {
        DeviceRegistration(token: "token", platform: .ios, appID: app)
    }

    private func isLive(_ registers: DeviceRegisters, _ user: UserID, deleted: Version? = nil) -> Bool {
        registers.isLive(of: user, watermark: deleted ?? none)
    }

    @Test func `a token belongs to whoever registered it last, and to nobody else`() {
        var registers = DeviceRegisters()
        registers.apply(device(), version: at(20), of: bob)
        registers.apply(device(), version: at(10), of: ann)
        #expect(registers.owner == bob && isLive(registers, bob) && !isLive(registers, ann))
        registers.apply(device(), version: at(30), of: ann)
        #expect(registers.owner == ann && isLive(registers, ann) && !isLive(registers, bob))
        registers.settle { _ in none }
        #expect(registers.entries[bob]?.registration == nil && registers.entries[bob]?.registered == at(20))
    }

    @Test func `a withdrawal is the user's own, does not hand the token back, and outlasts what is older`() {
        var registers = DeviceRegisters()
        registers.apply(device(), version: at(10), of: ann)
        registers.apply(device(), version: at(20), of: bob)
        registers.apply(nil, version: at(30), of: ann)
        #expect(isLive(registers, bob))
        registers.apply(nil, version: at(30), of: bob)
        registers.apply(device(), version: at(25), of: bob)
        #expect(!isLive(registers, bob) && !isLive(registers, ann) && registers.owner == bob)
        registers.apply(device(), version: at(30), of: bob)
        #expect(!isLive(registers, bob), "of equal versions the withdrawal counts")
        registers.apply(device(), version: at(31), of: bob)
        #expect(isLive(registers, bob))
    }

    @Test func `a deletion leaves hash and versions, and only what is newer counts`() {
        var registers = DeviceRegisters()
        registers.apply(device(), version: at(10), of: ann)
        registers.settle { _ in at(20) }
        #expect(registers.entries[ann]?.registration == nil && registers.entries[ann]?.registered == at(10))
        registers.apply(device(), version: at(10), of: ann)
        registers.apply(device(), version: at(15), of: ann)
        #expect(!isLive(registers, ann, deleted: at(20)))
        registers.apply(device(), version: at(20), of: ann)
        #expect(isLive(registers, ann, deleted: at(20)))
    }

    @Test func `what a sender found dead stays dead for every registration that is not newer (W4)`() {
        var registers = DeviceRegisters()
        registers.apply(device(), version: at(10, tie: 5), of: ann)
        var entries = registers.entries
        entries[ann]?.deactivatedAt = at(9).instant
        #expect(isLive(DeviceRegisters(entries: entries), ann), "the answer is older than the registration")
        entries[ann]?.deactivatedAt = at(10).instant
        registers = DeviceRegisters(entries: entries)
        #expect(!isLive(registers, ann))
        registers.apply(device(), version: at(10, tie: 5), of: ann)
        registers.apply(device(), version: at(10, tie: 4000), of: bob)
        #expect(!isLive(registers, ann) && !isLive(registers, bob), "nobody registered it since")
        registers.apply(device(), version: at(11), of: bob)
        #expect(isLive(registers, bob))
    }

    @Test func `ties do not depend on the order`() {
        for pair in [[device("a"), device("b")], [device("b"), device("a")]] {
            var registers = DeviceRegisters()
            for (index, device) in pair.enumerated() {
                registers.apply(device, version: at(10), of: ann)
                if index == 0 { registers.settle { _ in none } }
            }
            #expect(registers.entries[ann]?.registration == device("b"))
        }
        for users in [[ann, bob], [bob, ann]] {
            var registers = DeviceRegisters()
            for user in users { registers.apply(device(), version: at(10), of: user) }
            #expect(registers.owner == bob)
        }
    }

    // MARK: Any order

    private enum Event {
        case register(UserID, Version, DeviceRegistration)
        case withdraw(UserID, Version)
        case delete(UserID, Version)
        case deactivate(UserID, Instant)
    }

    private func events(_ generator: inout SeededGenerator) -> [Event] {
        (0..<Int.random(in: 1...14, using: &generator)).map { _ in
            let user = [ann, bob, UserID(high: 1, low: 3)].randomElement(using: &generator) ?? ann
            let version = at(Int.random(in: 0...6, using: &generator), tie: UInt64.random(in: 0...1, using: &generator))
            switch Int.random(in: 0..<10, using: &generator) {
            case ..<5: return .register(user, version, device(Bool.random(using: &generator) ? "a" : "b"))
            case ..<8: return .withdraw(user, version)
            case 8: return .delete(user, version)
            default: return .deactivate(user, version.instant)
            }
        }
    }

    /// What the events mean, by looking at all of them at once: versions by user, and the live owner with its details.
    private func meaning(_ events: [Event]) -> String {
        var registered: [UserID: (Version, DeviceRegistration)] = [:]
        var withdrawn: [UserID: Version] = [:]
        var deleted: [UserID: Version] = [:]
        var dead = Instant(microseconds: 0)
        for event in events {
            switch event {
            case .register(let user, let version, let device):
                if let held = registered[user], (held.0, held.1) > (version, device) { continue }
                registered[user] = (version, device)
            case .withdraw(let user, let version): withdrawn[user] = max(withdrawn[user] ?? none, version)
            case .delete(let user, let version): deleted[user] = max(deleted[user] ?? none, version)
            case .deactivate(_, let time): dead = max(dead, time)
            }
        }
        let owner = registered.max { ($0.value.0, $0.key) < ($1.value.0, $1.key) }
        var text = "nobody"
        if let owner, owner.value.0 > withdrawn[owner.key] ?? none, owner.value.0 >= deleted[owner.key] ?? none,
            owner.value.0.instant > dead
        {
            text = "\(owner.key) \(owner.value.1)"
        }
        for user in Set(registered.keys).union(withdrawn.keys).sorted() {
            text += " \(user) \(registered[user]?.0 ?? none) \(withdrawn[user] ?? none)"
        }
        return text
    }

    /// The same through the registers, which are stored and read again between batches, with the watermarks known then.
    private func meaning(_ events: [Event], stored generator: inout SeededGenerator) -> String {
        var registers = DeviceRegisters()
        var deleted: [UserID: Version] = [:]
        for event in events {
            switch event {
            case .register(let user, let version, let device): registers.apply(device, version: version, of: user)
            case .withdraw(let user, let version): registers.apply(nil, version: version, of: user)
            case .delete(let user, let version):
                deleted[user] = max(deleted[user] ?? none, version)
                registers.settle { $0 == user ? deleted[user] ?? none : none }
            case .deactivate(let user, let time):
                var entries = registers.entries
                guard let held = entries[user] else { continue }
                entries[user]?.deactivatedAt = max(held.deactivatedAt, time)
                registers = DeviceRegisters(entries: entries)
            }
            if Bool.random(using: &generator) { registers.settle { deleted[$0] ?? none } }
        }
        registers.settle { deleted[$0] ?? none }
        let users = registers.entries.keys.sorted()
        let live = users.filter { registers.isLive(of: $0, watermark: deleted[$0] ?? none) }
        #expect(live.count <= 1)
        var text = "nobody"
        if let user = live.first, let device = registers.entries[user]?.registration { text = "\(user) \(device)" }
        for user in users {
            guard let entry = registers.entries[user] else { continue }
            text += " \(user) \(entry.registered) \(entry.withdrawn)"
        }
        return text
    }

    @Test
    func
        `any order, duplication and split, deletions anywhere, and a replay after a token died: the same meaning (D3, D7)`()
    {
        var generator = SeededGenerator(seed: 11)
        for round in 0..<4000 {
            let records = events(&generator)
            // A sender deactivates an entry that it has read: what comes before its registration says nothing.
            let known = records.filter { event in
                guard case .deactivate(let user, _) = event else { return true }
                return records.contains {
                    switch $0 {
                    case .register(user, _, _), .withdraw(user, _): true
                    default: false
                    }
                }
            }
            let deactivations = known.filter { if case .deactivate = $0 { true } else { false } }
            let others = known.filter { if case .deactivate = $0 { false } else { true } }
            let expected = meaning(known)
            for _ in 0..<4 {
                var order = others + others.filter { _ in Bool.random(using: &generator) }
                order.shuffle(using: &generator)
                // Then the sender's part, and a full replay, which must not bring back what was dead.
                let replay = others.shuffled(using: &generator)
                let result = meaning(order + deactivations + replay, stored: &generator)
                #expect(result == expected, "round \(round)")
            }
        }
    }

    @Test func `printing a registration, or what holds one, shows no token`() {
        let registration = DeviceRegistration(token: "t0ken", platform: .ios, appID: "com.example", appVersion: "4.2")
        var dumped = ""
        dump([registration], to: &dumped)
        for shown in ["\(registration)", String(reflecting: registration), "\([registration])", dumped] {
            #expect(!shown.contains("t0ken") && !shown.isEmpty)
        }
        #expect("\(registration)".contains("com.example 4.2"))
    }
}
