#if canImport(Glibc)
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// Leak tests, each in its own process.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ChurnTests {
    @Test func `ten thousand connections leak nothing`() async {
        await #expect(processExitsWith: .success) { try await churn(.plain, cycles: 10_000) }
    }

    @Test(.enabled(if: TestTLS.isAvailable, "no TLS library can be loaded"))
    func `two thousand connections with TLS leak nothing`() async {
        await #expect(processExitsWith: .success) { try await churn(.tls, cycles: 2_000) }
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

    for number in 0..<200 { try await cycle(number) }
    let before = ProcessUsage.now()
    for number in 0..<scaled(cycles) { try await cycle(number) }
    await listener.stop()
    let after = ProcessUsage.now()
    precondition(after.descriptors <= before.descriptors, "descriptors: \(before) \(after)")
    precondition(after.threads <= before.threads + 2, "threads: \(before) \(after)")
    // The allocator may keep a little more memory. A leak of a thousand bytes for each connection, or five thousand with TLS, is
    // detected.
    if ProcessUsage.hasSanitizer { return }
    precondition(after.residentKiB <= before.residentKiB + 8 << 10, "memory: \(before) \(after)")
}
#endif
