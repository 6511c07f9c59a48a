/// Finds the name that was probably meant.
enum Suggestion {
    /// The nearest of `names`, if it is near enough to be worth a hint.
    static func nearest(to text: String, among names: [String]) -> String? {
        guard text.utf8.count <= 100 else { return nil }
        let scored = names.map { (name: $0, distance: distance(text, $0)) }
        if let best = scored.min(by: { $0.distance < $1.distance }), best.distance <= 4 { return best.name }
        // A unit left off is many letters, yet the likeliest slip.
        return text.utf8.count > 12 ? names.first { $0.hasPrefix(text) } : nil
    }

    /// How many letters have to be added, removed or replaced.
    static func distance(_ left: String, _ right: String) -> Int {
        let columns = Array(right.utf8)
        var previous = Array(0...columns.count)
        for (row, byte) in left.utf8.enumerated() {
            var current = [row + 1]
            for (column, other) in columns.enumerated() {
                let replaced = previous[column] + (byte == other ? 0 : 1)
                current.append(min(replaced, previous[column + 1] + 1, current[column] + 1))
            }
            previous = current
        }
        return previous[columns.count]
    }
}
