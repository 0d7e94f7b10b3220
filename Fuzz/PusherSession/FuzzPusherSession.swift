import RealtimeSystem
import Dispatch
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeTesting

/// A client that sends the fuzzer's frames.
final class RawClient: MessageEvents {
    let frames = EventRecorder<String>()
    private let isOver = Lock(false)

    var hasEnded: Bool { self.isOver.withLock { $0 } }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.isOver.withLock { $0 = true } }
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages { self.frames.record(String(decoding: message.bytes, as: UTF8.self)) }
    }
}

/// A server that sends the fuzzer's frames to its first connection, and establishes every connection.
final class RawServer: ListenerHandler, UpgradeAcceptor, MessageEvents {
    static let established = #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\"}"}"#

    private let first: Lock<[String]>
    private let connection = Lock<(any MessageConnection)?>(nil)

    init(_ frames: [String]) {
        self.first = Lock(frames)
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(to: self) }
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        self.connection.withLock { $0 = connection }
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        let connection = self.connection.withLock { $0 }
        let frames = self.first.withLock { frames in
            defer { frames = [] }
            return frames
        }
        for frame in frames + [Self.established] { connection?.enqueue(.text(frame)) }
        connection?.flush()
    }
}

func configuration(_ network: InMemoryNetwork, _ address: ListenerAddress) -> PusherConfiguration {
    var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
    configuration.transports = network.transports()
    configuration.authorizer = .secret("secret", userID: "me")
    configuration.log = LogSink(minimumLevel: .debug) { _, _, _ in }
    return configuration
}

/// Checks that client and server stay connected and respond, whatever frames they receive.
func checkConnected(_ toClient: [String], _ toServer: [String]) async throws {
    let network = InMemoryNetwork(clock: ManualClock(standstillLimit: nil))
    let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, log: .none)
    let address = try await server.start(on: network.listener())
    let client = PusherClient(configuration(network, address))
    client.connect()
    let channels = try ["one", "private-two", "presence-three"].map { try client.subscribe($0) }
    let markers = channels.map { $0.events("marker") }
    let consumers = (client.errors, client.events(), client.states, channels[2].memberChanges, channels[0].states)
    let socketID = client.socketID!
    precondition(channels.allSatisfy { $0.state == .subscribed })

    let raw = RawClient()
    let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port, target: "/app/key?protocol=7")
    let connection = network.webSocket.makeConnection(WebSocketRequest(endpoint), id: ConnectionID(rawValue: 1), events: raw)
    connection.open()

    for frame in toClient { server.send(frame, to: socketID) }
    for frame in toServer { connection.enqueue(.text(frame)) }
    connection.flush()

    let events = server.events
    server.send(#"{"event":"pusher:ping"}"#, to: socketID)
    precondition(client.state == .connected(socketID: socketID))
    let response = await events.makeAsyncIterator().next()
    precondition(response == .received(socketID: socketID, frame: #"{"event":"pusher:pong","data":{}}"#))
    for (channel, events) in zip(channels, markers) where channel.state == .subscribed {
        server.publish("marker", to: channel.name, data: "last")
        let marker = await events.first { $0.data == "last" }
        precondition(marker != nil)
    }
    precondition(channels[0].members.isEmpty && channels[1].members.isEmpty)

    _ = raw.frames.take()
    connection.enqueue(.text(#"{"event":"pusher:ping"}"#))
    connection.flush()
    precondition(!raw.hasEnded && raw.frames.all == [#"{"event":"pusher:pong","data":{}}"#])
    connection.abandon()
    withExtendedLifetime(consumers) {}
    await server.stop()
}

/// Checks that the client eventually connects, whatever frames precede `connection_established`, unless an error event rejects it.
func checkConnecting(_ frames: [String]) async throws {
    let clock = ManualClock(standstillLimit: nil)
    let network = InMemoryNetwork(clock: clock)
    let listener = network.listener()
    let address = try await listener.start(RawServer(frames))
    let client = PusherClient(configuration(network, address))
    let channel = try client.subscribe("presence-three")
    client.connect()
    clock.advance(by: .seconds(20))
    switch client.state {
    case .connected: precondition(channel.state != .unsubscribed)
    case .disconnected(let error?): precondition(error.code == .rejected)
    default: preconditionFailure("the state is \(client.state)")
    }
    // Stopping breaks the reference cycle of network and listener.
    await listener.stop()
}

/// The first byte selects the meaning of the lines: frames of a connected server (even lines) and client (odd lines), or frames that a
/// server sends before it establishes the connection.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 40, omittingEmptySubsequences: false).map {
        String(decoding: $0, as: UTF8.self)
    }
    let isConnecting = start[0] & 3 == 0
    let isDone = DispatchSemaphore(value: 0)
    // The task needs no other thread of this function: when a call returns, all of its effects in the in-memory network have happened. So
    // the semaphore cannot deadlock.
    Task {
        if isConnecting {
            try await checkConnecting(lines)
        } else {
            let numbered = lines.enumerated()
            try await checkConnected(
                numbered.filter { $0.offset.isMultiple(of: 2) }.map(\.element),
                numbered.filter { !$0.offset.isMultiple(of: 2) }.map(\.element))
        }
        isDone.signal()
    }
    isDone.wait()
    return 0
}
