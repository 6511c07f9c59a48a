import JSON

/// The array of a record's days, taken from a text that has it just so, but for numbers that are written otherwise there.
public struct DaysRecordText {
    /// A stretch of the text that stands for a number, given in tenths.
    public struct Number {
        let from: Int
        let to: Int
        let tenths: Int32

        /// In bytes from the text's begin.
        public init(from: Int, to: Int, tenths: Int32) {
            self.from = from
            self.to = to
            self.tenths = tenths
        }
    }

    public let text: UnsafeRawBufferPointer
    public let numbers: [Number]

    /// The text lives as long as this is used; `numbers` lie inside it, one behind the other.
    public init(_ text: UnsafeRawBufferPointer, _ numbers: [Number]) {
        self.text = text
        self.numbers = numbers
    }

    func write(into writer: inout JSONWriter) {
        writer.value(room: text.count + numbers.count * DecimalText.tenthsRoom) { start in
            var place = TextPlace(start)
            var done = 0
            for number in numbers {
                place.put(text[done..<number.from])
                place.put { DecimalText.writeTenths(number.tenths, to: $0) }
                done = number.to
            }
            place.put(text[done...])
            return place.count
        }
    }
}
