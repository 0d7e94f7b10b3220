import RealtimeSystem

/// Counts the bytes that wait for the clients of a server's connections over HTTP, and decides whether they are too many. A message that waits
/// for several clients takes its memory once, and counts once.
package final class SharedBacklog: Sendable {
    fileprivate struct State: Sendable {
        var bytes = 0
        /// How many times each large message waits, by the address of its content, which stays the same for as long as it waits.
        var counts: [UInt: Int] = [:]
    }

    /// The size from which it matters that a message is shared.
    fileprivate static let sharedSize = 1024

    /// The number of bytes above which connections end that aren't read.
    package let limit: Int
    private let state = Lock(State())

    package init(limit: Int) { self.limit = limit }

    /// The number of bytes that wait.
    package var bytes: Int { self.state.withLock { $0.bytes } }

    package var isExceeded: Bool { self.bytes > self.limit }

    func add(_ messages: ArraySlice<TransportMessage>) { self.count(messages) { $0.add($1) } }

    func remove(_ messages: ArraySlice<TransportMessage>) { self.count(messages) { $0.remove($1) } }

    private func count(_ messages: ArraySlice<TransportMessage>, _ change: (inout State, TransportMessage) -> Void) {
        guard !messages.isEmpty else { return }
        self.state.withLock { state in for message in messages { change(&state, message) } }
    }

    /// The error of a connection that ends.
    var error: TransportError {
        TransportError(
            .tooLarge,
            "More than \(self.limit) bytes wait for clients over HTTP that don't ask for their messages, of which this is one. Increase the total "
                + "backlog limit if they are too few.")
    }
}

extension SharedBacklog.State {
    /// The bytes that a message takes for each client for which it waits.
    private static let overhead = 64

    private static func address(_ message: TransportMessage) -> UInt? {
        message.bytes.withUnsafeBytes { $0.count < SharedBacklog.sharedSize ? nil : UInt(bitPattern: $0.baseAddress) }
    }

    mutating func add(_ message: TransportMessage) {
        self.bytes += Self.overhead
        guard let address = Self.address(message) else { return self.bytes += message.bytes.count }
        self.counts[address, default: 0] += 1
        if self.counts[address] == 1 { self.bytes += message.bytes.count }
    }

    mutating func remove(_ message: TransportMessage) {
        self.bytes -= Self.overhead
        guard let address = Self.address(message) else { return self.bytes -= message.bytes.count }
        guard let count = self.counts[address] else { return }
        self.counts[address] = count == 1 ? nil : count - 1
        if count == 1 { self.bytes -= message.bytes.count }
    }
}
