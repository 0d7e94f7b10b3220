internal import CommandLineSupport
/// The benchmarks, as they are called on the command line.
enum BenchName: String, CaseIterable, Sendable {
    /// An event, from the socket to a `for await` loop, as strings and decoded.
    case receive
    /// The same when 1 to 10,000 channels are subscribed.
    case channels
    /// An event there and one back.
    case roundTrip = "round-trip"
    /// 64 events in a row.
    case send
    /// Connections on which nothing happens.
    case idle
}
