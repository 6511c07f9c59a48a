internal import Domain
internal import MessageContract
internal import Storage

/// What a batch goes through in the order of users, since that is how it locks and how the database reads and writes.
extension DaysMerge {
    /// A record's part of a list: its places there, which stand one behind the other.
    struct Run {
        let user: UserID
        let places: Range<Int>
    }

    /// Each record's part of a list, sorted by user and then as they came.
    ///
    /// - Parameters:
    ///   - places: the part of the list that counts.
    ///   - records: the batch's.
    ///   - record: which of them a place belongs to.
    /// - Returns: the runs.
    static func runs(in places: Range<Int>, _ records: [DecodedDays], record: (Int) -> Int) -> [Run] {
        var runs: [Run] = []
        var first = places.lowerBound
        while first < places.upperBound {
            let number = record(first)
            var end = first + 1
            while end < places.upperBound && record(end) == number { end += 1 }
            runs.append(Run(user: records[number].user, places: first..<end))
            first = end
        }
        return runs.sorted { left, right in
            left.user == right.user ? left.places.lowerBound < right.places.lowerBound : left.user < right.user
        }
    }
}

extension TouchedUser {
    static func sorted(_ users: some Sequence<UserID>) -> [TouchedUser] {
        var touched: [TouchedUser] = []
        for user in users.sorted() where touched.last?.user != user {
            touched.append(TouchedUser(user: user, bucket: Int16(Partitioner.bucket(of: user))))
        }
        return touched
    }
}

extension [DayRange] {
    /// - Parameter days: in any order.
    init(covering days: [UserDay]) {
        self.init()
        for key in days.sorted() { cover(key.user, key.day) }
    }

    /// In portions of about so many days, none of which shares a user with another: while one is merged, the database
    /// works on the others.
    func portions(ofDays size: Int) -> [ArraySlice<DayRange>] {
        var portions: [ArraySlice<DayRange>] = []
        var start = startIndex
        var days = 0
        for index in indices {
            if days >= size && self[index].user != self[index - 1].user {
                portions.append(self[start..<index])
                start = index
                days = 0
            }
            days += self[index].last.days(since: self[index].first) + 1
        }
        if start < endIndex { portions.append(self[start...]) }
        return portions
    }

    /// Takes in one more day, in the order of users and days: one range costs less than its days one by one, unless
    /// they lie far apart.
    mutating func cover(_ user: UserID, _ day: CalendarDay) {
        if let last, last.user == user, day.days(since: last.last) <= 4 {
            self[count - 1].last = day
        } else {
            append(DayRange(user: user, first: day, last: day))
        }
    }
}
