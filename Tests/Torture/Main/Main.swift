import Foundation
import Torture

@main
enum Main {
    static func main() {
        guard let options = TortureOptions(Array(CommandLine.arguments.dropFirst())) else {
            FileHandle.standardError.write(Data((TortureOptions.help + "\n").utf8))
            exit(64)
        }
        exit(TortureRun(options).run() ? 0 : 1)
    }
}
