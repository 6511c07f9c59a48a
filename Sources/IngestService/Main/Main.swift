import Glibc
import IngestService

@main
struct Main {
    static func main() {
        exit(IngestProgram.run(arguments: Array(CommandLine.arguments.dropFirst())))
    }
}
