import PrimusClient
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import RealtimeTransports
import TestSupport
import Testing

/// Clients that were ended or released in the middle of calls: nothing of them may remain.
@Suite(.requires(.completeRun), .usesSockets, .timeLimit(.minutes(10))) struct CycleTests {
    #if canImport(Glibc)
    @Test func `a thousand opens and ends of a client leave no task, descriptor, thread or memory`() async {
        await #expect(processExitsWith: .success) { try await cycle(1_000, releases: false) }
    }

    @Test func `a thousand clients that are released while connected leave no task, descriptor, thread or memory`() async {
        await #expect(processExitsWith: .success) { try await cycle(1_000, releases: true) }
    }
    #endif
}

#if canImport(Glibc)
/// Opens and ends a client over sockets, with calls in progress, and compares the resources of the process before and after.
///
/// - Parameter releases: Whether each cycle has a client of its own, which is released instead of ended.
private func cycle(_ count: Int, releases: Bool) async throws {
    let server = ScriptedPrimus()
    let listener = SocketListener(limits: .forTests)
    let address = try await listener.start(server)

    func makeClient() -> PrimusConnection {
        var configuration = PrimusConfiguration(Endpoint(scheme: "http", host: address.host, port: address.port), transports: .standard)
        configuration.log = .none
        // Beside other work, a task of the client may be late.
        (configuration.detectionTimeout, configuration.connectTimeout) = (.seconds(300), .seconds(300))
        configuration.silenceLimit = .seconds(300)
        configuration.credentials = { [:] }
        configuration.transforms = [.incoming { _ in true }, .outgoing { _ in true }]
        return PrimusConnection(configuration)
    }

    let shared = makeClient()
    func run() async throws {
        weak var driver: SessionDriver<PrimusSession>?
        do {
            let client = releases ? makeClient() : shared
            driver = client.driver
            client.open()
            try await client.opened(within: .seconds(300))
            try await client.write("a")
            client.enqueue("b")
            // A call in progress retains its client.
            let call = releases ? nil : Task { _ = try? await client.id(within: .seconds(300)) }
            if !releases {
                try await eventually { client.driver.read { $0.waiterCount } > 0 }
                client.end()
            }
            await call?.value
        }
        try await eventually { (!releases || driver == nil) && server.connectionCount == 0 }
        _ = (server.requests.take(), server.upgrades.take(), server.received.take(), server.ends.take())
    }

    for _ in 0..<ProcessUsage.warmUp(50) { try await run() }
    let before = ProcessUsage.now()
    for _ in 0..<scaled(count) { try await run() }
    await listener.stop()
    // A leak of a few thousand bytes in each cycle is detected.
    try await ProcessUsage.expectRelease(since: before, growthKiB: 6 << 10)
}
#endif
