import Dispatch
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting

/// A server that sends the fuzzer's data: as its specification, at the beginning of a connection, or after it.
final class RawPrimus: ListenerHandler, UpgradeAcceptor, MessageEvents {
    private struct State: Sendable {
        var connection: (any MessageConnection)?
        var received: [TransportMessage] = []
    }

    private let spec: [UInt8]
    private let greeting: [TransportMessage]
    private let state = Lock(State())

    init(spec: [UInt8], greeting: [TransportMessage]) {
        (self.spec, self.greeting) = (spec, greeting)
    }

    func send(_ frames: [TransportMessage]) {
        let connection = self.state.withLock { $0.connection }
        for frame in frames { connection?.enqueue(frame) }
        connection?.flush()
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(to: self) }
    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.send(self.greeting) }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.state.withLock { $0.connection = nil } }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        let messages = Array(batch.messages)
        self.state.withLock { $0.received += messages }
    }

    /// Whether the client has sent a text, in any framing and with any parser.
    func hasReceived(_ text: String) -> Bool {
        self.state.withLock { $0.received }.contains { $0.bytes.firstRange(of: Array(text.utf8)) != nil }
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: self.spec))
    }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        self.state.withLock { $0.connection = connection }
        return self
    }
}

/// The part of a client that its task retains for a moment after the client was released.
struct Remains: Sendable {
    weak var driver: SessionDriver<PrimusSession>?
}

/// Checks that a client handles any frames: it works afterwards if they leave it open, its calls end, and nothing waits after its end.
func check(
    spec: [UInt8], _ transformer: PrimusTransformerKind?, _ parser: PrimusParserKind?, greeting: [TransportMessage],
    _ frames: [TransportMessage]
) async throws -> Remains {
    let network = InMemoryNetwork(clock: ManualClock(standstillLimit: nil))
    let server = RawPrimus(spec: spec, greeting: greeting)
    let listener = network.listener()
    let address = try await listener.start(server)
    var configuration = PrimusConfiguration(
        Endpoint(scheme: "http", host: address.host, port: address.port), transports: network.transports())
    (configuration.transformer, configuration.parser) = (transformer, parser)
    configuration.detection = spec.isEmpty ? .off : .automatic
    configuration.messageLimit = 1 << 16
    configuration.plugins = [.emitter, .multiplex, .substream, .responder, .emit]
    configuration.log = LogSink(minimumLevel: .trace) { _, _, _ in }
    let primus = PrimusConnection(configuration)
    let messages = primus.messages(buffer: .dropOldest(100))
    let (events, channel, stream) = (primus.emitter.events, primus.channel("news"), primus.substream("sub"))
    primus.open()
    // The specification is a response in a task.
    for _ in 0..<20 where !primus.isConnected { await Task.yield() }
    let call = Task { try? await primus.id(within: .seconds(3600)) }
    let write = Task { try? await primus.write(1) }
    let event = Task { _ = try? await primus.emitter.send("ask", as: Int.self, within: .seconds(3600)) }
    let request = Task { _ = try? await primus.request(1, as: Int.self, within: .seconds(3600)) }
    for _ in 0..<5 { await Task.yield() }
    server.send(frames)
    let isConnected = primus.isConnected
    primus.enqueue("after")
    // A task that sends may be delivering the message.
    var turns = 0
    while isConnected, !server.hasReceived("after") {
        turns += 1
        precondition(turns < 100_000, "a client that is connected doesn't send")
        await Task.yield()
    }
    primus.end()
    _ = await (call.value, write.value, event.value, request.value)
    withExtendedLifetime((events, channel, stream)) {}
    precondition(primus.driver.read { $0.waiterCount } == 0)
    guard case .closed = primus.state else { preconditionFailure("the state is \(primus.state)") }
    // Decoding, too, must end with a value or an error.
    for message in await messages.pending() {
        _ = try? message.value
        _ = try? message.decode(as: [String: Int].self)
    }
    await listener.stop()
    return Remains(driver: primus.driver)
}

/// The first byte selects the transformer and the parser, and the meaning of the lines that follow: the specification, the messages at the beginning
/// of a connection, or messages after it.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = Array(UnsafeRawBufferPointer(start: start + 1, count: count - 1))
    let selector = start[0]
    let transformer: PrimusTransformerKind = [.websockets, .engineIO, .sockjs, .faye][Int(selector & 3)]
    let parser = PrimusParserKind.builtIn[Int(selector >> 2 & 3)]
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 40, omittingEmptySubsequences: false)
    let frames = lines.map { line -> TransportMessage in
        selector & 0x40 == 0 ? .text(String(decoding: line, as: UTF8.self)) : .binary(Array(line))
    }
    let handshake = #"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#
    let opening: [TransportMessage] = transformer == .engineIO ? [.text(handshake)] : []
    let isDone = DispatchSemaphore(value: 0)
    // The tasks need no other thread of this function, so the semaphore cannot deadlock.
    Task {
        let remains: Remains
        do {
            remains =
                switch selector >> 4 & 3 {
                case 0: try await check(spec: bytes.isEmpty ? [0] : bytes, nil, nil, greeting: [], [])
                case 1: try await check(spec: [], transformer, transformer == .sockjs ? .json : parser, greeting: frames, [])
                default: try await check(spec: [], transformer, transformer == .sockjs ? .json : parser, greeting: opening, frames)
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
