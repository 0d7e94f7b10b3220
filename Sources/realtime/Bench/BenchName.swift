/// The benchmarks, as they are called on the command line.
enum BenchName: String, CaseIterable, Sendable {
    case receive
}
