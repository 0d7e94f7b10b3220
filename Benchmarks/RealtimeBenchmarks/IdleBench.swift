internal import CommandLineSupport
internal import Processes
internal import PusherChannels
internal import RealtimeCore
internal import RealtimeSockets

/// What a connection costs on which nothing happens: a client, a channel, and a listener that waits.
struct IdleBench {
    private static let kibibyte = 1024.0
    private static let warmUp = 100
    /// How many are opened at a time.
    private static let group = 250

    let bed: BenchFixture
    /// All clients are made with it, as a program with many of them has it.
    let configuration: PusherConfiguration
    let kind: String
    let goal: Double

    init(_ bed: BenchFixture, tls: Bool) {
        self.bed = bed
        self.kind = tls ? "TLS" : "plain"
        self.goal = tls ? 32 : 4
        var security = TLSConfiguration()
        security.verification = .dangerouslyAcceptAnyCertificate
        let transports =
            tls
            ? Transports(
                webSocket: SocketWebSocketTransport(tls: security), http: InMemoryNetwork(time: EventLoop.shared).http,
                time: EventLoop.shared)
            : nil
        self.configuration = bed.configuration(useTLS: tls, transports: transports)
    }

    func callAsFunction(_ count: Int) async throws(ToolFailure) {
        let name = "idle, \(count) connections, \(self.kind)"
        let limit = FileLimit.raise()
        guard limit > count + Self.warmUp + 100 else { return self.bed.skip(name, "this process may have \(limit) descriptors only") }
        guard allocatedBytes != nil else { return self.bed.skip(name, "this system does not say how much memory is handed out") }
        var clients: [PusherClient] = []
        var listeners: [Task<Void, Never>] = []
        clients.reserveCapacity(count + Self.warmUp)
        listeners.reserveCapacity(count + Self.warmUp)
        try await self.open(Self.warmUp, &clients, &listeners)
        await Self.rest()
        let before = allocatedBytes ?? 0
        let began = processTime()
        try await self.open(count, &clients, &listeners)
        let took = processTime() - began
        await Self.rest()
        let after = allocatedBytes ?? 0
        self.bed.say(BenchResult(name, Double(after - before) / Double(count) / Self.kibibyte, "KiB each").atMost(self.goal))
        self.bed.say(BenchResult("\(name), to open", took / Double(count) / 1000, "us CPU each"))

        let (turns, time) = (EventLoop.shared.counters.turns, processTime())
        try? await Task.sleep(for: .seconds(3))
        self.bed.say(BenchResult("\(name), wake-ups in 3 s", Double(EventLoop.shared.counters.turns - turns), "wake-ups").atMost(0))
        self.bed.say(BenchResult("\(name), time used in 3 s", (processTime() - time) / 1e6, "ms CPU"))
        for client in clients { client.disconnect() }
        for listener in listeners { await listener.value }
    }

    /// Until the tasks that were started wait.
    private static func rest() async { try? await Task.sleep(for: .milliseconds(300)) }

    private func open(_ count: Int, _ clients: inout [PusherClient], _ listeners: inout [Task<Void, Never>]) async throws(ToolFailure) {
        var left = count
        while left > 0 {
            let group = (0..<min(left, Self.group)).map { _ in PusherClient(self.configuration) }
            left -= group.count
            for client in group { client.connect() }
            for client in group {
                do throws(PusherError) {
                    try await client.connected()
                    let channel = try client.subscribe(LoadMessage.channel(0))
                    let events = channel.events(LoadMessage.event)
                    // A task for each, as a program has it; each ends with its sequence, and is awaited above.
                    listeners.append(Task { for await _ in events {} })
                    try await channel.subscribed()
                } catch {
                    throw ToolFailure("An idle client did not come to its load: \(error)")
                }
            }
            clients += group
        }
    }
}
