internal import CommandLineSupport
/// `realtime bench`
struct BenchCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["bench"],
        summary: "Measure the library on this machine",
        description:
            "Runs benchmarks on this machine, without a network, and prints what they took. Build with -c release for figures that count.",
        positionals: [
            PositionalSpec(
                "NAME", "The benchmarks to run: \(Self.list). All unless given.", .repeated(atLeast: 0))
        ],
        options: [
            .value("messages", "N", "How many messages each sends.", as: .integer(1...100_000_000)),
            .value("connections", "N", "How many connections those with many open.", as: .integer(1...100_000)),
            .json,
        ],
        examples: ["bench", "bench --messages 100000 --json"])

    private static let list = BenchName.allCases.map(\.rawValue).joined(separator: ", ")

    var names: [BenchName]
    var messages: Int?
    var connections: Int?

    init(_ arguments: Arguments) throws(UsageError) {
        self.names = try arguments.all("NAME").map { word throws(UsageError) in
            guard let name = BenchName(rawValue: word) else {
                throw arguments.wrong("There is no benchmark '\(word)': \(Self.list)")
            }
            return name
        }
        if self.names.isEmpty { self.names = BenchName.allCases }
        self.messages = arguments.integer("messages")
        self.connections = arguments.integer("connections")
    }
}
