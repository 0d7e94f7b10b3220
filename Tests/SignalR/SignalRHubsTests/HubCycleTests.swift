import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTesting
import RealtimeTransports
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Clients that were stopped or released in the middle of calls: nothing of them may remain.
@Suite(.requires(.completeRun), .usesSockets, .timeLimit(.minutes(10))) struct HubCycleTests {
    #if canImport(Glibc)
    @Test func `a thousand starts and stops of a client leave no task, descriptor, thread or memory`() async {
        await #expect(processExitsWith: .success) { try await cycle(1_000, releases: false) }
    }

    @Test func `a thousand clients that are released in the middle of calls leave no task, descriptor, thread or memory`() async {
        await #expect(processExitsWith: .success) { try await cycle(1_000, releases: true) }
    }
    #endif

    @Test func `clients that are released in the middle of streams end them`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = ScriptedHub()
        let address = try await network.listener().start(server)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        for _ in 0..<5 {
            let terminations = EventRecorder<Bool>()
            weak var client: HubClient?
            weak var driver: SessionDriver<HubSession>?
            let reading: Task<HubError?, Never>
            do {
                var options = HubConfiguration(endpoint, transports: network.transports())
                (options.log, options.allowedTransports, options.skipsNegotiation, options.retry) = (.none, .webSockets, true, .standard)
                let strong = HubClient(options)
                (client, driver) = (strong, strong.driver)
                try await strong.start()
                let stream = try strong.stream("ticks", of: Int.self)
                reading = Task { await hubError { for try await _ in stream {} } }
                let items = AsyncStream<Int> { feed in
                    feed.yield(1)
                    feed.onTermination = { _ in terminations.record(true) }
                }
                try await strong.send("sum", HubUpload(items))
                try await eventually { server.received.all.contains { $0["type"] == 2 } }
            }
            expectNil(client)
            let error = try #require(await reading.value)
            expect(error.code == .stopped && error.message.hasPrefix("The client was released"))
            try await eventually { driver == nil && terminations.all.count == 1 }
            expectEqual(server.connectionCount, 0)
            _ = server.received.take()
        }
    }
}

#if canImport(Glibc)
/// Starts and stops a client over sockets, with calls, streams and handlers in progress, and compares the resources of the process before
/// and after.
///
/// - Parameter releases: Whether each cycle has a client of its own, which is released instead of stopped.
private func cycle(_ count: Int, releases: Bool) async throws {
    var script = ScriptedHub.Script()
    script.answer = { message in
        guard message["target"] == "echo", let id = message["invocationId"]?.string else { return [] }
        return [#"{"type":3,"invocationId":"\#(id)","result":1}"#, #"{"type":1,"target":"note","arguments":[1]}"#]
    }
    let server = ScriptedHub(script)
    let listener = SocketListener(limits: .forTests)
    let address = try await listener.start(server)
    let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/hub")

    func makeClient() -> HubClient {
        var options = HubConfiguration(endpoint, transports: .standard)
        (options.log, options.retry) = (.none, .standard)
        // Other tests use the processor.
        (options.connectTimeout, options.handshakeTimeout, options.serverTimeout) = (.seconds(600), .seconds(600), .seconds(600))
        options.accessToken = { "token" }
        let client = HubClient(options)
        client.on("note") { (_: Int) in }
        return client
    }

    /// Begins calls, and returns what waits for their ends.
    func begin(_ client: HubClient) async throws -> [Task<Void, Never>] {
        try await client.start()
        _ = try await client.invoke("echo", as: Int.self)
        let stream = try client.stream("ticks", of: Int.self)
        let (items, feed) = AsyncStream.makeStream(of: Int.self)
        feed.yield(1)
        try await client.send("sum", HubUpload(items))
        var tasks = [Task { _ = await hubError { for try await _ in stream {} } }]
        // A call in progress retains its client.
        if !releases { tasks.append(Task { _ = try? await client.invoke("wait", as: Int.self) }) }
        try await eventually { server.received.all.contains { $0["type"] == 2 } && server.received.all.count >= (releases ? 4 : 5) }
        return tasks
    }

    let shared = makeClient()
    func run() async throws {
        weak var driver: SessionDriver<HubSession>?
        let tasks: [Task<Void, Never>]
        if releases {
            let client = makeClient()
            driver = client.driver
            tasks = try await begin(client)
        } else {
            tasks = try await begin(shared)
            shared.stop()
            precondition(shared.driver.read { $0.callCount == 0 && $0.waiterCount == 0 })
        }
        for task in tasks { await task.value }
        try await eventually { driver == nil && server.connectionCount == 0 }
        for recorder in [server.negotiations, server.upgrades] { _ = recorder.take() }
        for recorder in [server.received, server.pings] { _ = recorder.take() }
        _ = (server.handshakes.take(), server.ends.take())
    }

    for _ in 0..<ProcessUsage.warmUp(50) { try await run() }
    let before = ProcessUsage.now()
    for _ in 0..<scaled(count) { try await run() }
    await listener.stop()
    // A leak of a few thousand bytes in each cycle is detected.
    try await ProcessUsage.expectRelease(since: before, growthKiB: 6 << 10)
}
#endif
