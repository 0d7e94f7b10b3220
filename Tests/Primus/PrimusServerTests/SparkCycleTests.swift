@testable import PrimusClient
import PrimusServer
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// Sparks that end in the middle of calls, over each kind of connection: nothing of them and of their clients may remain. `CycleTests` does the
/// same with a client alone.
@Suite(.requires(.completeRun), .usesSockets, .timeLimit(.minutes(10))) struct SparkCycleTests {
    #if canImport(Glibc)
    @Test(arguments: BehaviorKind.all.map(\.name))
    func `a thousand sparks leave no task, descriptor, thread or memory`(kind: String) async {
        await #expect(processExitsWith: .success) { [kind = kind as String] in try await cycle(kind) }
    }
    #endif
}

#if canImport(Glibc)
/// Opens and ends clients over sockets, with calls of both sides in progress, and compares the resources of the process before and after.
private func cycle(_ name: String) async throws {
    guard let kind = BehaviorKind.all.first(where: { $0.name == name }) else { preconditionFailure("no kind \(name)") }
    var configuration = PrimusServerConfiguration.patient(kind)
    configuration.plugins = .all
    var server: PrimusServer! = PrimusServer(configuration: configuration, log: .none)
    var callbacks = [
        server.onMessage { message in _ = try? message.spark.write(message.value) },
        server.onChannel("news") { event in if case .message(let channel, _) = event { try? channel.write("more") } },
    ]
    let address = try await server.start(on: SocketListener(limits: .forTests))

    func makeClient() -> PrimusConnection {
        var configuration = PrimusConfiguration.patient(address, kind)
        (configuration.retry, configuration.plugins) = (.standard, [.emitter, .multiplex])
        return PrimusConnection(configuration)
    }

    let shared = makeClient()
    func run(_ number: Int, on server: PrimusServer) async throws {
        weak var driver: SessionDriver<PrimusSession>?
        do {
            let client = number.isMultiple(of: 2) ? shared : makeClient()
            driver = client.driver
            let messages = client.messages.makeAsyncIterator()
            client.open()
            try await client.opened(within: .seconds(300))
            let channel = client.channel("news")
            try await channel.write("a")
            try await client.write(number)
            let answer = try await messages.next()?.value.int
            let id = try await client.id(within: .seconds(300))
            guard answer == number, let spark = server.sparks.first(where: { $0.id == id }) else {
                preconditionFailure("the server didn't answer")
            }
            // Calls without an answer.
            async let unanswered = try? client.emitter.send("never", as: Int.self, within: .seconds(300))
            async let alsoUnanswered = try? spark.call("never", within: .seconds(300))
            // Sent, so that the end of the connection ends it. A session that moves to a WebSocket sends it a little later.
            try await eventually { client.driver.read { $0.plugins.waiterCount } > 0 }
            switch number % 4 {
            case 0:
                client.end()
                // The server would notice it after the time for which it waits for another request.
                if kind.disconnectDelay > .zero { server.drop(spark.id) }
            case 1: spark.end()
            case 2: spark.end(reconnects: true)
            default: server.drop(spark.id)
            }
            _ = await (unanswered, alsoUnanswered)
            channel.leave()
            client.end()
        }
        try await eventually { number.isMultiple(of: 2) || driver == nil }
    }

    /// A client that ends while it connects leaves a session over HTTP, which the server would forget after the time limit of its heartbeat.
    func endRemainingSparks() async throws {
        try await eventually {
            if kind.isOverHTTP { for spark in server.sparks { server.drop(spark.id) } }
            return server.sparks.isEmpty
        }
    }

    for number in 0..<ProcessUsage.warmUp(50) { try await run(number, on: server) }
    try await endRemainingSparks()
    let before = ProcessUsage.now()
    for number in 0..<scaled(1_000) { try await run(number, on: server) }
    try await endRemainingSparks()
    // Before the server stops: a socket is closed a little later than its spark ends.
    try await ProcessUsage.expectRelease(since: before, growthKiB: nil)
    weak let released = server
    await server.stop()
    (server, callbacks) = (nil, [])
    _ = callbacks
    try await eventually { released == nil }
    // A leak of 7 KiB in each cycle is detected.
    try await ProcessUsage.expectRelease(since: before, growthKiB: 6 << 10)
}
#endif
