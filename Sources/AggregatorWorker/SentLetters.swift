/// The records of one partition whose dead letters were acknowledged while their batch is not finished yet.
struct SentLetters {
    /// Of the claim under which they were sent: another one may read another log, or was rewound in order to send them again.
    let epoch: Int64
    private var offsets: Set<Int64> = []

    init(epoch: Int64) {
        self.epoch = epoch
    }

    func has(_ offset: Int64) -> Bool { offsets.contains(offset) }

    mutating func note(_ offset: Int64) { offsets.insert(offset) }

    /// The position has moved past them.
    mutating func forget(before position: Int64) {
        offsets = offsets.filter { $0 >= position }
    }
}
