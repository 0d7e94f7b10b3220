import CommandLineSupport
import Processes
import PusherChannels
import RealtimeCore
import RealtimeSockets

/// Measures the memory and the wake-ups of idle connections: a client with one channel and a task that waits for its events.
struct IdleBench {
    private static let kibibyte = 1024.0
    private static let warmUp = 100
    /// The number of connections that are opened at the same time.
    private static let groupSize = 250

    let fixture: BenchFixture
    /// The configuration of all clients.
    let configuration: PusherConfiguration
    let kind: String
    let goal: Double

    init(_ fixture: BenchFixture, tls: Bool) {
        self.fixture = fixture
        self.kind = tls ? "TLS" : "plain"
        self.goal = tls ? 32 : 6
        var security = TLSConfiguration()
        security.verification = .dangerouslyAcceptAnyCertificate
        let transports =
            tls
            ? Transports(
                webSocket: SocketWebSocketTransport(tls: security), http: InMemoryNetwork(time: EventLoop.shared).http,
                time: EventLoop.shared)
            : nil
        self.configuration = fixture.configuration(useTLS: tls, transports: transports)
    }

    func callAsFunction(_ count: Int) async throws(ToolFailure) {
        let name = "idle, \(count) connections, \(self.kind)"
        let limit = FileLimit.raise()
        guard limit > count + Self.warmUp + 100 else { return self.fixture.printSkipped(name, "the limit of open files is \(limit)") }
        guard allocatedBytes != nil else { return self.fixture.printSkipped(name, "this system does not report allocated memory") }
        let (clients, consumers, bytes, elapsed) = try await self.open(count)
        self.fixture.print(BenchResult(name, bytes / Self.kibibyte, "KiB each").atMost(self.goal))
        self.fixture.print(BenchResult("\(name), to open", elapsed / 1000, "us CPU each"))

        let (turns, time) = (EventLoop.shared.counters.turns, processTime())
        try? await Task.sleep(for: .seconds(3))
        self.fixture.print(BenchResult("\(name), wake-ups in 3 s", Double(EventLoop.shared.counters.turns - turns), "wake-ups").atMost(0))
        self.fixture.print(BenchResult("\(name), time used in 3 s", (processTime() - time) / 1e6, "ms CPU"))
        for client in clients { client.disconnect() }
        for consumer in consumers { await consumer.value }
    }

    /// Returns the bytes that each of a number of connections takes.
    func bytes(_ count: Int) async throws(ToolFailure) -> Double {
        FileLimit.raise()
        let (clients, consumers, bytes, _) = try await self.open(count)
        for client in clients { client.disconnect() }
        for consumer in consumers { await consumer.value }
        return bytes
    }

    /// Opens connections.
    ///
    /// - Returns: The clients and their consumers, and the bytes and the processor time of each connection.
    private func open(
        _ count: Int
    ) async throws(ToolFailure) -> (clients: [PusherClient], consumers: [Task<Void, Never>], bytes: Double, time: Double) {
        var clients: [PusherClient] = []
        var consumers: [Task<Void, Never>] = []
        clients.reserveCapacity(count + Self.warmUp)
        consumers.reserveCapacity(count + Self.warmUp)
        try await self.open(Self.warmUp, &clients, &consumers)
        await Self.settle()
        let before = allocatedBytes ?? 0
        let start = processTime()
        try await self.open(count, &clients, &consumers)
        let elapsed = processTime() - start
        await Self.settle()
        let after = allocatedBytes ?? 0
        return (clients, consumers, Double(after - before) / Double(count), elapsed / Double(count))
    }

    /// Waits until the tasks that were started are suspended.
    private static func settle() async { try? await Task.sleep(for: .milliseconds(300)) }

    private func open(_ count: Int, _ clients: inout [PusherClient], _ consumers: inout [Task<Void, Never>]) async throws(ToolFailure) {
        var remaining = count
        while remaining > 0 {
            let group = (0..<min(remaining, Self.groupSize)).map { _ in PusherClient(self.configuration) }
            remaining -= group.count
            for client in group { client.connect() }
            for client in group {
                do throws(PusherError) {
                    try await client.connected()
                    let channel = try client.subscribe(LoadMessage.channel(0))
                    let events = channel.events(LoadMessage.event)
                    // One task per connection, as in a program. It ends with its sequence, and is awaited above.
                    consumers.append(Task { for await _ in events {} })
                    try await channel.subscribed()
                } catch {
                    throw ToolFailure("An idle client failed to connect to the load generator: \(error)")
                }
            }
            clients += group
        }
    }
}
