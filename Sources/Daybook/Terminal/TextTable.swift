/// Rows of text in columns that line up. Pure: takes cells, gives lines.
struct TextTable: Sendable {
    enum Alignment: Sendable {
        case left, right
    }

    struct Column: Sendable {
        let title: String
        let alignment: Alignment

        static func left(_ title: String) -> Column { Column(title: title, alignment: .left) }
        static func right(_ title: String) -> Column { Column(title: title, alignment: .right) }
    }

    let columns: [Column]
    private var rows: [[String]] = []

    init(_ columns: [Column]) {
        self.columns = columns
    }

    var isEmpty: Bool { rows.isEmpty }

    /// Missing cells are empty, surplus ones are left out.
    mutating func add(_ cells: [String]) {
        let padding = Array(repeating: "", count: max(0, columns.count - cells.count))
        rows.append(Array((cells + padding).prefix(columns.count)))
    }

    /// The lines, heading first; no line ends in spaces.
    func lines(_ style: TextStyle = .plain, indent: Int = 0) -> [String] {
        let widths = columns.indices.map { column in
            max(columns[column].title.count, rows.map { $0[column].count }.max() ?? 0)
        }
        let margin = String(repeating: " ", count: indent)
        func line(_ cells: [String]) -> String {
            let padded = columns.indices.map { column -> String in
                let space = String(repeating: " ", count: widths[column] - cells[column].count)
                return columns[column].alignment == .left ? cells[column] + space : space + cells[column]
            }
            let joined = margin + padded.joined(separator: "  ")
            return String(joined.reversed().drop { $0 == " " }.reversed())
        }
        return [style.heading(line(columns.map(\.title)))] + rows.map(line)
    }
}

/// `12304` as `12,304`.
func grouped(_ number: Int) -> String {
    let digits = String(number.magnitude)
    var result = ""
    for (index, digit) in digits.enumerated() {
        if index > 0, (digits.count - index) % 3 == 0 { result += "," }
        result.append(digit)
    }
    return (number < 0 ? "-" : "") + result
}

/// A value in tenths as a person reads it: `123040` is `12,304`, `6125` is `612.5`.
func shown(tenths: Int32) -> String {
    let value = Int(tenths)
    let fraction = abs(value % 10)
    let whole = grouped(value / 10)
    let sign = value < 0 && value > -10 ? "-" : ""
    return fraction == 0 ? whole : "\(sign)\(whole).\(fraction)"
}

/// `1 copy`, `3 copies`.
func counted(_ number: Int, _ one: String, _ many: String) -> String {
    "\(grouped(number)) \(number == 1 ? one : many)"
}
