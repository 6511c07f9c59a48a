import Daybook
import Foundation

@main
struct Main {
    static func main() {
        let words = Array(CommandLine.arguments.dropFirst())
        exit(DaybookTool.main(words, environment: ProcessInfo.processInfo.environment))
    }
}
