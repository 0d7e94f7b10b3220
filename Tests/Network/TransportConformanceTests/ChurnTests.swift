#if canImport(Glibc)
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// Leak tests, each in its own process.
@Suite(.requires(.completeRun), .usesSockets, .timeLimit(.minutes(10))) struct ChurnTests {
    @Test func `ten thousand connections leak nothing`() async {
        await #expect(processExitsWith: .success) { try await churn(.plain, cycles: 10_000) }
    }

    @Test(.requires(.openSSL))
    func `two thousand connections with TLS leak nothing`() async {
        await #expect(processExitsWith: .success) { try await churn(.tls, cycles: 2_000) }
    }

    @Test func `a thousand connections over HTTP leak nothing`() async {
        await #expect(processExitsWith: .success) { try await churnOverHTTP(inMemory: false, cycles: 1_000) }
    }

    @Test func `ten thousand connections over HTTP in memory leak nothing`() async {
        await #expect(processExitsWith: .success) { try await churnOverHTTP(inMemory: true, cycles: 10_000) }
    }
}

/// Opens and ends connections one after another, and compares the resources of the process before and after.
private func churn(_ wire: Wire, cycles: Int) async throws {
    let listener = try wire.listener()
    let address = try await listener.start(ScriptedServer(.echo))
    let transport = wire.transport()
    let request = WebSocketRequest(wire.endpoint(address.port), timeout: .seconds(600))

    func cycle(_ number: Int) async throws {
        let probe = Probe()
        let connection = transport.makeConnection(request, id: ConnectionID(rawValue: UInt64(number)), events: probe)
        connection.open()
        _ = try await probe.opened()
        connection.enqueue(.text("\(number)"))
        connection.flush()
        try await probe.expect(.text("\(number)"))
        // Half of them close properly.
        if number % 2 == 0 {
            connection.close(.normal, reason: "")
            _ = await probe.closed()
        } else {
            connection.abandon()
        }
    }

    for number in 0..<ProcessUsage.warmUp(200) { try await cycle(number) }
    let before = ProcessUsage.now()
    for number in 0..<scaled(cycles) { try await cycle(number) }
    await listener.stop()
    // A leak of a thousand bytes for each connection, or five thousand with TLS, is detected.
    try await ProcessUsage.expectRelease(since: before, growthKiB: 8 << 10)
}

/// Compares the resources of the process before and after connections over HTTP. A leak of a few thousand bytes for each connection is
/// detected.
private func churnOverHTTP(inMemory: Bool, cycles: Int) async throws {
    for _ in 0..<2 { try await cyclesOverHTTP(scaled(cycles) / 5, inMemory: inMemory) }
    let before = ProcessUsage.now()
    try await cyclesOverHTTP(scaled(cycles), inMemory: inMemory)
    try await ProcessUsage.expectRelease(since: before, growthKiB: 4 << 10)
}

/// Opens connections over HTTP one after another, as streams and by polling, which end in each possible way, and expects that nothing is
/// left of them.
private func cyclesOverHTTP(_ cycles: Int, inMemory: Bool) async throws {
    // On sockets as well: the server gives up a client that polls no longer after a time.
    let clock = ManualClock()
    let network = InMemoryNetwork(clock: clock)
    let transports =
        inMemory
        ? network.transports() : Transports(webSocket: SocketWebSocketTransport(), http: SocketHTTPTransport(), time: clock.time)
    let listener: any Listener = inMemory ? network.listener() : SocketListener(limits: .forTests)
    let server = ScriptedServer(
        Behavior(received: { connection, message in
            switch message {
            case .text("close"): connection.close(.normal, reason: "")
            case .text("cut"): connection.abandon()
            default:
                connection.enqueue(message)
                connection.flush()
            }
        }))
    let handler = FramedHTTPHandler(server, time: clock.time)
    let address = try await listener.start(handler)
    let request = WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port))
    var remaining: [Remaining] = []
    for number in 0..<cycles {
        let probe = Probe()
        let connection = FramedHTTPTransport(transports, isStream: number % 2 == 0).makeConnection(
            request, id: ConnectionID(rawValue: UInt64(number)), events: probe)
        remaining.append(Remaining(connection: connection, probe: probe))
        connection.open()
        _ = try await probe.opened()
        connection.enqueue(.text("\(number)"))
        connection.flush()
        try await probe.expect(.text("\(number)"))
        switch number / 2 % 4 {
        case 0:
            connection.close(.normal, reason: "")
            let reason = await probe.closed()
            precondition(reason == .requested, "\(reason)")
        case 1: connection.abandon()
        case 2:
            connection.enqueue(.text("close"))
            connection.flush()
            let reason = await probe.closed()
            precondition(reason == .peer(.normal, ""), "\(reason)")
        default:
            connection.enqueue(.text("cut"))
            connection.flush()
            guard case .transport = await probe.closed() else { preconditionFailure("the server has cut the connection") }
        }
    }
    // Until the server has noticed that clients were abandoned, it doesn't expect their return.
    try await eventually {
        clock.advance(by: .seconds(10))
        return handler.connectionCount == 0 && remaining.allSatisfy { $0.connection == nil && $0.probe == nil }
    }
    precondition(clock.untilNextDeadline == nil, "timers are left")
    await listener.stop()
}

/// The objects of a connection that would remain.
private struct Remaining {
    weak var connection: (any MessageConnection)?
    weak var probe: Probe?
}
#endif
