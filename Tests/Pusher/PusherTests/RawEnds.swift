import RealtimeJSON
import RealtimeCore
import RealtimeSystem
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeTesting

/// A server that sends the frames of a test, valid or not.
final class RawServer: ListenerHandler, WebSocketEvents {
    static let greeting = #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\",\"activity_timeout\":120}"}"#

    let received = EventRecorder<JSONValue>()
    /// The open connections, oldest first.
    private let connections = Lock<[(id: ConnectionID, connection: any WebSocketConnection)]>([])
    private let count = Lock(0)
    private let greeting: [WebSocketMessage]
    private let respond: @Sendable (_ event: String, _ data: JSONValue) -> [String]

    init(greeting: [WebSocketMessage], respond: @escaping @Sendable (_ event: String, _ data: JSONValue) -> [String]) {
        self.greeting = greeting
        self.respond = respond
    }

    /// The number of accepted connections.
    var accepted: Int { self.count.withLock { $0 } }

    /// Sends messages on the newest connection, which reads all of them together.
    func send(_ messages: [WebSocketMessage]) {
        guard let connection = self.connections.withLock({ $0.last?.connection }) else { return }
        for message in messages { connection.enqueue(message) }
        connection.flush()
    }

    func send(_ frames: String...) { self.send(frames.map { WebSocketMessage.text($0) }) }

    func close(_ code: CloseCode, _ reason: String = "") { self.connections.withLock { $0.last?.connection }?.close(code, reason: reason) }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { responder.respond(HTTPResponse(status: 404)) }
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.connections.withLock { $0.append((id, connection)) }
        self.count.withLock { $0 += 1 }
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.send(self.greeting) }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections.withLock { $0.removeAll { $0.id == id } } }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages where message.kind == .text {
            guard let frame = try? JSONValue(parsing: message.bytes) else { continue }
            self.received.record(frame)
            self.send(self.respond(frame["event"]?.string ?? "", frame["data"] ?? .null).map { .text($0) })
        }
    }
}

/// A client on an in-memory network, connected to a raw server.
struct RawPusher {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let server: RawServer
    let client: PusherClient

    init(
        greeting: [String] = [RawServer.greeting], authorizer: PusherAuthorizer = .secret("secret", userID: "me"),
        respond: @escaping @Sendable (_ event: String, _ data: JSONValue) -> [String] = RawPusher.subscribing
    ) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = RawServer(greeting: greeting.map { .text($0) }, respond: respond)
        let address = try await self.network.listener().start(self.server)
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
        configuration.transports = self.network.transports()
        configuration.authorizer = authorizer
        configuration.log = .none
        self.client = PusherClient(configuration)
    }

    /// Confirms every subscription.
    static let subscribing: @Sendable (String, JSONValue) -> [String] = { event, data in
        guard event == "pusher:subscribe", let channel = data["channel"]?.string else { return [] }
        let text = channel.hasPrefix("presence-") ? #"{\"presence\":{\"ids\":[\"me\"],\"hash\":{\"me\":null},\"count\":1}}"# : "{}"
        return [#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"\#(text)"}"#]
    }
}

/// A client that sends the frames of a test, valid or not.
final class RawClient: Sendable {
    /// The connection retains this object instead of the client, so that releasing the client ends the connection.
    private final class Events: WebSocketEvents {
        private let client = Lock<Weak>(Weak())

        private struct Weak: Sendable {
            weak var client: RawClient?
        }

        init(_ client: RawClient) { self.client.withLock { $0.client = client } }

        private var owner: RawClient? { self.client.withLock { $0.client } }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.owner?.endings.record(reason) }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.owner?.received(batch) }
    }

    let frames = EventRecorder<String>()
    let endings = EventRecorder<CloseReason>()
    private let connection = Lock<(any WebSocketConnection)?>(nil)

    /// Opens a connection.
    convenience init(_ pusher: InMemoryPusher, _ target: String = "/app/key?protocol=7") {
        self.init(pusher.network, pusher.address, target)
    }

    init(_ network: InMemoryNetwork, _ address: ListenerAddress, _ target: String = "/app/key?protocol=7") {
        let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port, target: target)
        let connection = network.webSocket.makeConnection(
            WebSocketRequest(endpoint), id: ConnectionID(rawValue: 1), events: Events(self))
        self.connection.withLock { $0 = connection }
        connection.open()
    }

    deinit { self.connection.withLock { $0.take() }?.abandon() }

    /// Removes and returns the frames received since the last call.
    func take() -> [String] { self.frames.take() }

    /// Removes the frames received since the last call, and returns their event names.
    func takeEvents() -> [String] { self.take().map { (try? JSONValue(parsing: $0))?["event"]?.string ?? "?" } }

    /// Removes the frames received since the last call, and returns the codes of error events, which may be `nil`.
    func takeErrors() -> [Int?] {
        self.take().compactMap { try? JSONValue(parsing: $0) }.filter { $0["event"] == "pusher:error" }.map { $0["data"]?["code"]?.int }
    }

    var closeCode: Int? { if case .peer(let code, _)? = self.endings.all.last { Int(code.rawValue) } else { nil } }

    @discardableResult
    func send(_ messages: WebSocketMessage...) -> Self {
        let connection = self.connection.withLock { $0 }
        for message in messages { connection?.enqueue(message) }
        connection?.flush()
        return self
    }

    @discardableResult
    func send(_ text: String) -> Self { self.send(.text(text)) }

    func close() { self.connection.withLock { $0 }?.close(.normal, reason: "") }

    private func received(_ batch: borrowing MessageBatch) {
        for message in batch.messages where message.kind == .text { self.frames.record(String(decoding: message.bytes, as: UTF8.self)) }
    }
}
