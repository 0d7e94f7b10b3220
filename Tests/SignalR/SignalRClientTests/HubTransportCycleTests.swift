#if canImport(Glibc)
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import RealtimeTransports
import SignalRHubs
import SignalRServer
import SignalRWire
import TestSupport
import Testing

/// A client that is started and stopped again and again over each transport, each time in the middle of calls. Each test has a process of
/// its own.
@Suite(.requires(.completeRun), .usesSockets, .timeLimit(.minutes(10))) struct HubTransportCycleTests {
    @Test(arguments: HubTransport.allCases, [true, false])
    func `a thousand starts and stops leave no task, descriptor, thread or memory`(transport: HubTransport, inMemory: Bool) async {
        await #expect(processExitsWith: .success) { [name = transport.rawValue as String, inMemory = inMemory as Bool] in
            guard let transport = HubTransport(rawValue: name) else { preconditionFailure(name) }
            let cycles = try await Cycles(transport, inMemory: inMemory)
            for number in 0..<ProcessUsage.warmUp(100) { try await cycles.run(number) }
            let before = ProcessUsage.now()
            for number in 0..<scaled(1_000) { try await cycles.run(number) }
            try await cycles.stop()
            // A leak of 16 KiB in each cycle is detected.
            try await ProcessUsage.expectRelease(since: before, growthKiB: 16 << 10)
        }
    }
}

/// A client and its hub, in memory or on a port.
private struct Cycles {
    private let clock = ManualClock()
    private let server: SignalRServer
    private let hub: Hub
    private let client: HubClient
    /// The methods that have begun.
    private let begun = EventRecorder<Int>()
    /// The connections that have ended with all of their methods.
    private let ended = EventRecorder<Int>()

    init(_ transport: HubTransport, inMemory: Bool) async throws {
        let network = InMemoryNetwork(clock: self.clock)
        // In memory, `stop()` expects that no timer of the default limits is left.
        var limits = SignalRServerConfiguration()
        if !inMemory { limits.allowLongTimes() }
        self.server =
            inMemory
            ? SignalRServer(network: network, configuration: limits, log: .none) : SignalRServer(configuration: limits, log: .none)
        self.hub = self.server.hub("/hub")
        let address = try await self.server.start(on: inMemory ? network.listener() : SocketListener(limits: .forTests))
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/hub")
        var configuration = HubConfiguration(endpoint, transports: inMemory ? network.transports() : .standard)
        configuration.allowedTransports = HubTransportKinds(transport)
        configuration.accessToken = { "token" }
        configuration.log = .none
        if !inMemory { configuration.allowLongTimes() }
        self.client = HubClient(configuration)
        self.client.on("Note") { (_: Int) in }
        let (begun, ended) = (self.begun, self.ended)
        self.hub.on("Add") { (caller, a: Int, b: Int) in
            try await caller.clients.caller.send("Note", a)
            return a + b
        }
        self.hub.on("Never") { caller in
            begun.record(1)
            // Until the task is cancelled.
            for await _ in AsyncStream<Int>(Int.self, { _ in }) {}
        }
        self.hub.stream("Ticks") { caller in
            begun.record(1)
            return AsyncStream<Int> { $0.yield(1) }
        }
        self.hub.on("Sum") { (caller, items: HubStream<Int>) in
            begun.record(1)
            return try await items.reduce(0, +)
        }
        self.hub.onDisconnected { _, _ in ended.record(1) }
    }

    /// Opens a connection, begins calls, and ends it in one of the possible ways.
    func run(_ number: Int) async throws {
        try await self.client.start()
        let sum = try await self.client.invoke("Add", number, 1, as: Int.self)
        precondition(sum == number + 1)
        let stream = try self.client.stream("Ticks", of: Int.self)
        let (items, input) = AsyncStream.makeStream(of: Int.self)
        input.yield(1)
        try await self.client.send("Sum", HubUpload(items))
        let call = Task { [client] in try await client.invoke("Never") }
        try await eventually { self.begun.all.count == 3 }
        if let id = self.client.connectionID {
            switch number % 4 {
            case 2: self.server.close(id, error: "bye")
            case 3: self.server.drop(id)
            default: self.client.stop()
            }
        }
        for result in [await call.result, await Task { for try await _ in stream {} }.result] {
            guard case .failure = result else { preconditionFailure("a call has ended without its result") }
        }
        try await eventually { self.ended.all.count == 1 && !self.client.isConnected && self.hub.connectionIDs.isEmpty }
        precondition(self.client.driver.read { $0.callCount == 0 && $0.waiterCount == 0 })
        _ = (self.begun.take(), self.ended.take())
    }

    /// Stops the server, and expects that nothing waits for a time any more.
    func stop() async throws {
        await self.server.stop()
        self.clock.advance(by: .seconds(600))
        precondition(self.clock.untilNextDeadline == nil, "timers are left")
    }
}
#endif
