/// The simple commands of a shell's text, as far as documents use it: words with quotes, pipes, lists, substitutions,
/// redirections and comments. A substitution's own commands count too; in its place stands `x`.
enum ShellWords {
    static func commands(in text: String) -> [[String]] {
        var reader = Reader(Array(text.replacing("\\\n", with: " ")))
        reader.readAll(until: nil)
        return reader.commands
    }

    private struct Reader {
        let text: [Character]
        var index = 0
        var commands: [[String]] = []
        private var words: [String] = []
        private var word: String?
        private var skipsWord = false

        init(_ text: [Character]) { self.text = text }

        private var next: Character? { index < text.count ? text[index] : nil }

        private mutating func endWord() {
            guard let done = word else { return }
            word = nil
            if skipsWord {
                skipsWord = false
            } else {
                words.append(done)
            }
        }

        private mutating func endCommand() {
            endWord()
            skipsWord = false
            if !words.isEmpty { commands.append(words) }
            words = []
        }

        /// Up to the end, or to a bracket that nobody opened here.
        mutating func readAll(until end: Character?) {
            while let character = next {
                index += 1
                switch character {
                case " ", "\t": endWord()
                case "\n", ";", "|", "&": endCommand()
                case "#" where word == nil: while let skipped = next, skipped != "\n" { index += 1 }
                case ">", "<":
                    // What stands before it may be a descriptor.
                    if word?.allSatisfy(\.isNumber) == true { word = nil }
                    endWord()
                    while let more = next, ">&<".contains(more) { index += 1 }
                    skipsWord = true
                case ")" where end == ")":
                    endCommand()
                    return
                case "'":
                    word = word ?? ""
                    while let inside = next, inside != "'" {
                        word?.append(inside)
                        index += 1
                    }
                    index += 1
                case "\"":
                    word = word ?? ""
                    readQuoted()
                case "$" where next == "(": substitute()
                case "\\":
                    if let escaped = next { word = (word ?? "") + String(escaped) }
                    index += 1
                default: word = (word ?? "") + String(character)
                }
            }
            endCommand()
        }

        private mutating func readQuoted() {
            while let inside = next, inside != "\"" {
                index += 1
                if inside == "$", next == "(" {
                    substitute()
                } else {
                    word?.append(inside)
                }
            }
            index += 1
        }

        private mutating func substitute() {
            index += 1
            var inner = Reader(text)
            inner.index = index
            inner.readAll(until: ")")
            index = inner.index
            commands += inner.commands
            word = (word ?? "") + "x"
        }
    }
}
