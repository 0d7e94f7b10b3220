import Dispatch
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting

/// A server of engine.io whose answers over polling and messages on the WebSocket are the fuzzer's.
final class RawEngine: ListenerHandler, UpgradeAcceptor, MessageEvents {
    private struct State: Sendable {
        var answers: [HTTPResponse] = []
        var waiting: (any HTTPResponder)?
        var sockets: [any MessageConnection] = []
    }

    private let state = Lock(State())
    private let isRefusing: Bool

    init(isRefusing: Bool) { self.isRefusing = isRefusing }

    /// Answers the poll that waits, or the next one.
    func answer(_ response: HTTPResponse) {
        let waiting = self.state.withLock { state -> (any HTTPResponder)? in
            if state.waiting == nil { state.answers.append(response) }
            return state.waiting.take()
        }
        waiting?.respond(response)
    }

    func send(_ message: TransportMessage) {
        guard let socket = self.state.withLock({ $0.sockets.last }) else { return }
        socket.enqueue(message)
        socket.flush()
    }

    func close() { self.state.withLock { $0.sockets.popLast() }?.close(.goingAway, reason: "") }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.isRefusing ? .reject(HTTPResponse(status: 400)) : .accept(to: self)
    }
    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        guard request.method == "GET" else { return responder.respond(HTTPResponse(status: 200, text: "ok")) }
        let answer = self.state.withLock { state -> HTTPResponse? in
            if state.answers.isEmpty {
                state.waiting = responder
                return nil
            }
            return state.answers.removeFirst()
        }
        if let answer { responder.respond(answer) }
    }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        self.state.withLock { $0.sockets.append(connection) }
        return self
    }

    /// Ends what waits.
    func finish() {
        let (waiting, sockets) = self.state.withLock { state in
            defer { state = State() }
            return (state.waiting, state.sockets)
        }
        waiting?.respond(HTTPResponse(status: 400))
        for socket in sockets { socket.abandon() }
    }
}

/// The part of a client that its task retains for a moment after the client was released.
struct Remains: Sendable {
    weak var driver: SessionDriver<PrimusSession>?
}

/// Checks that a client that moves from polling to a WebSocket handles any events in any order: it ends, with its calls, and nothing waits.
func check(_ steps: [ArraySlice<UInt8>], _ version: EngineIOVersion, isRefusing: Bool) async throws -> Remains {
    let clock = ManualClock(standstillLimit: nil)
    let network = InMemoryNetwork(clock: clock)
    let server = RawEngine(isRefusing: isRefusing)
    let listener = network.listener()
    let address = try await listener.start(server)
    var configuration = PrimusConfiguration(
        Endpoint(scheme: "http", host: address.host, port: address.port), transports: network.transports())
    (configuration.transformer, configuration.parser, configuration.startsWithPolling) = (.engineIO, .json, true)
    (configuration.detection, configuration.messageLimit) = (.off, 1 << 16)
    configuration.log = LogSink(minimumLevel: .trace) { _, _, _ in }
    let primus = PrimusConnection(configuration)
    let messages = primus.messages(buffer: .dropOldest(100))
    let handshake = #"0{"sid":"a","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000}"#
    // A client that knows nothing of the server asks for version 3 first.
    if version == .v4 { server.answer(HTTPResponse(status: 400, text: #"{"code":5,"message":"Unsupported protocol version"}"#)) }
    server.answer(HTTPResponse(status: 200, text: version == .v4 ? handshake : "\(handshake.utf8.count):\(handshake)"))
    primus.open()
    for _ in 0..<5 where !primus.isConnected { await Task.yield() }
    precondition(primus.isConnected, "the client doesn't connect")
    let call = Task { try? await primus.id(within: .seconds(3600)) }
    for step in steps {
        let rest = Array(step.dropFirst())
        switch step.first {
        case UInt8(ascii: "p")?: server.answer(HTTPResponse(HTTPResponseHead(status: 200), body: rest))
        case UInt8(ascii: "f")?: server.answer(HTTPResponse(status: 400 + Int(rest.first ?? 0)))
        case UInt8(ascii: "w")?: server.send(.text(String(decoding: rest, as: UTF8.self)))
        case UInt8(ascii: "b")?: server.send(.binary(rest))
        case UInt8(ascii: "c")?: server.close()
        case UInt8(ascii: "t")?: clock.advance(by: .milliseconds(100 * Int(rest.first ?? 0)))
        case UInt8(ascii: "s")?: primus.enqueue(String(decoding: rest, as: UTF8.self))
        case UInt8(ascii: "e")?: primus.end()
        case UInt8(ascii: "o")?: primus.open()
        default: await Task.yield()
        }
    }
    primus.end()
    clock.advance(by: .seconds(60))
    _ = await call.value
    precondition(primus.driver.read { $0.waiterCount } == 0, "a call waits")
    guard case .closed = primus.state else { preconditionFailure("the state is \(primus.state)") }
    precondition(primus.transport == nil, "a client that has ended has a transport")
    for message in await messages.pending() { _ = try? message.value }
    server.finish()
    await listener.stop()
    return Remains(driver: primus.driver)
}

/// The first byte chooses the version, and whether the server refuses WebSockets. Each line that follows is a step: its first byte chooses what happens.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = Array(UnsafeRawBufferPointer(start: start + 1, count: count - 1))
    let (isRefusing, version) = (start[0] & 1 == 1, start[0] & 2 == 0 ? EngineIOVersion.v4 : .v3)
    let steps = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 40, omittingEmptySubsequences: true)
    let isDone = DispatchSemaphore(value: 0)
    // The tasks need no other thread of this function, so the semaphore cannot deadlock.
    Task {
        let remains: Remains
        do { remains = try await check(steps, version, isRefusing: isRefusing) } catch { fatalError("\(error)") }
        // The leak detector takes what is about to be released for a leak.
        while remains.driver != nil { await Task.yield() }
        isDone.signal()
    }
    isDone.wait()
    return 0
}
