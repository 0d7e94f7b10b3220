import Dispatch
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import SignalRHubs
import SignalRWire

/// A hub that sends the fuzzer's data: as the answer to the negotiation, instead of the answer to the handshake, or after it.
final class RawHub: ListenerHandler, UpgradeAcceptor, MessageEvents {
    struct Script: Sendable {
        var negotiation: [UInt8] = []
        /// The frames that answer the handshake.
        var handshake: [TransportMessage] = []
    }

    private struct State: Sendable {
        var script: Script
        var connection: (any MessageConnection)?
        var received = 0
    }

    private let state: Lock<State>

    init(_ script: Script) {
        self.state = Lock(State(script: script))
    }

    var received: Int { self.state.withLock { $0.received } }

    func send(_ frames: [TransportMessage]) {
        let connection = self.state.withLock { $0.connection }
        for frame in frames { connection?.enqueue(frame) }
        connection?.flush()
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(to: self) }
    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.state.withLock { $0.connection = nil } }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: self.state.withLock { $0.script.negotiation }))
    }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        self.state.withLock { $0.connection = connection }
        return self
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        // The first message is the handshake.
        let count = batch.entries.count
        let frames = self.state.withLock { state in
            defer { state.received += count }
            return state.received == 0 ? state.script.handshake : []
        }
        if !frames.isEmpty { self.send(frames) }
    }
}

/// A client of a raw hub, in memory.
struct Fixture {
    let hub: RawHub
    let client: HubClient
    let listener: InMemoryListener

    init(_ format: HubFormat, negotiates: Bool, _ script: RawHub.Script) async throws {
        let network = InMemoryNetwork(clock: ManualClock(standstillLimit: nil))
        self.hub = RawHub(script)
        self.listener = network.listener()
        let address = try await self.listener.start(self.hub)
        var options = HubConfiguration(
            Endpoint(scheme: "http", host: address.host, port: address.port, target: "/hub"), transports: network.transports())
        options.format = format
        options.skipsNegotiation = !negotiates
        if !negotiates { options.allowedTransports = .webSockets }
        options.messageLimit = 1 << 16
        options.refreshesAuthentication = true
        options.log = LogSink(minimumLevel: .trace) { _, _, _ in }
        self.client = HubClient(options)
    }

    /// The part of the client that its task retains for a moment after the client was released.
    struct Remains: Sendable {
        weak var driver: SessionDriver<HubSession>?
    }

    /// Stops the client, and checks that nothing waits any more.
    func finish() async -> Remains {
        self.client.stop()
        precondition(self.client.driver.read { $0.waiterCount == 0 && $0.callCount == 0 })
        guard case .stopped = self.client.state else { preconditionFailure("the state is \(self.client.state)") }
        // Stopping breaks the reference cycle of network and listener.
        await self.listener.stop()
        return Remains(driver: self.client.driver)
    }
}

/// Checks that a start ends, whatever the negotiation or the handshake is answered with.
func checkStart(_ format: HubFormat, negotiation: [UInt8]?, handshake: [TransportMessage]) async throws -> Fixture.Remains {
    let fixture = try await Fixture(format, negotiates: negotiation != nil, .init(negotiation: negotiation ?? [], handshake: handshake))
    let client = fixture.client
    let hasEnded = Lock(false)
    let start = Task {
        _ = try? await client.start()
        hasEnded.withLock { $0 = true }
    }
    // The start may wait for the rest of the handshake, and fails when it is stopped. On a busy machine, it may begin after that.
    for _ in 1...10 { await Task.yield() }
    repeat {
        client.stop()
        await Task.yield()
    } while !hasEnded.withLock { $0 }
    await start.value
    return await fixture.finish()
}

/// Checks that a connected client handles any frames: its calls end, and, if the frames leave the messages in step, it works afterwards.
func checkConnected(_ format: HubFormat, _ frames: [TransportMessage], inStep: Bool) async throws -> Fixture.Remains {
    let accepting = TransportMessage(format.messageKind, HubHandshake.response(error: nil))
    let fixture = try await Fixture(format, negotiates: false, .init(handshake: [accepting]))
    let (client, hub) = (fixture.client, fixture.hub)
    client.on("echo") { (a: [Int]) in a }
    client.on("note") { (_: String) in }
    try await client.start()
    // The handshake and a ping.
    var count = 2
    func sent(_ messages: Int) async throws {
        count += messages
        try await eventually(within: .seconds(60)) { hub.received >= count }
    }
    let call = Task { try? await client.invoke("one", as: Int.self) }
    try await sent(1)
    let stream = try client.stream("two", of: String.self)
    let reading = Task { for try await _ in stream {} }
    try await sent(1)
    let items = HubUpload { coder, send in for number in 1...3 { try await send(try coder.payload(number)) } }
    let upload = Task { try? await client.invoke("three", items, as: [String: Int].self) }
    try await sent(5)

    hub.send(frames)

    if inStep, case .connected = client.state {
        let marker = Task { try await client.invoke("five", as: Int.self) }
        // The client may have answered calls, so the number of its messages is unknown. Another thread, which sends its messages, may only now
        // receive the frames, and a close message among them.
        try await eventually(within: .seconds(60)) { client.driver.read { $0.isWaiting(forCall: 5) } || !client.isConnected }
        hub.send([HubMessageWriter.message(.completion(id: "5", .result(try client.coder.payload(55))), format)])
        let result = await marker.result
        if client.isConnected {
            let value = try result.get()
            precondition(value == 55)
        }
    }
    let remains = await fixture.finish()
    _ = await (call.value, reading.result, upload.value)
    return remains
}

/// The first byte selects the format, and the meaning of the lines that follow: the answer to the negotiation, the frames instead of the
/// answer to the handshake, messages, or frames of a connected server.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = Array(UnsafeRawBufferPointer(start: start + 1, count: count - 1))
    let format = start[0] & 1 == 0 ? HubFormat.json : .messagePack
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 40, omittingEmptySubsequences: false).map { Array($0) }
    let mode = (start[0] >> 1) & 3
    let frames = lines.map { line -> TransportMessage in
        switch (format, mode) {
        case (.json, 2): TransportMessage(.text, Array(String(decoding: line, as: UTF8.self).utf8) + [HubHandshake.separator])
        case (.json, _): .text(String(decoding: line, as: UTF8.self))
        case (.messagePack, 2): TransportMessage(.binary, [UInt8(min(127, line.count))] + line.prefix(127))
        case (.messagePack, _): TransportMessage(.binary, line)
        }
    }
    let isDone = DispatchSemaphore(value: 0)
    // The tasks need no other thread of this function, so the semaphore cannot deadlock.
    Task {
        let remains: Fixture.Remains
        do {
            remains =
                switch mode {
                case 0: try await checkStart(format, negotiation: bytes, handshake: [])
                case 1: try await checkStart(format, negotiation: nil, handshake: frames)
                default: try await checkConnected(format, frames, inStep: mode == 2)
                }
        } catch {
            fatalError("\(error)")
        }
        // The leak detector takes what is about to be released for a leak.
        while remains.driver != nil { await Task.yield() }
        isDone.signal()
    }
    isDone.wait()
    return 0
}
