import RealtimeCore
import RealtimeJSON
import RealtimeSystem
import RealtimeTesting
import TestSupport

@testable import SignalRServer

/// A server with one hub on an in-memory network with a manual clock.
struct HubUnderTest {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let server: SignalRServer
    let hub: Hub
    let address: ListenerAddress

    init(
        hooks: SignalRServerHooks = SignalRServerHooks(), log: LogSink = .none,
        _ change: (inout SignalRServerConfiguration) -> Void = { _ in }
    ) async throws {
        var configuration = SignalRServerConfiguration()
        change(&configuration)
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = SignalRServer(network: self.network, configuration: configuration, hooks: hooks, log: log)
        self.hub = self.server.hub("/hub")
        self.address = try await self.server.start(on: self.network.listener())
    }

    /// Connects a client without a negotiation, and completes its handshake.
    func connect(_ target: String = "/hub", headers: HTTPHeaders = [:]) async throws -> RawHubClient {
        let client = RawHubClient(self.network, self.address, target, headers: headers)
        client.send(#"{"protocol":"json","version":1}"#)
        _ = try await client.next()
        return client
    }

    func request(_ method: String, _ target: String, headers: HTTPHeaders = [:]) async throws -> HTTPResponse {
        let endpoint = Endpoint(scheme: "http", host: self.address.host, port: self.address.port, target: target)
        let response = try await self.network.http.open(HTTPRequest(method, endpoint, headers: headers))
        var body: [UInt8] = []
        while let bytes = try await response.body.next() { body += bytes }
        return HTTPResponse(response.head, body: body)
    }

    func negotiate(_ target: String = "/hub/negotiate?negotiateVersion=1", headers: HTTPHeaders = [:]) async throws -> JSONValue {
        let response = try await self.request("POST", target, headers: headers)
        return try JSONValue(parsing: response.body)
    }
}

/// A client that sends the messages of a test, valid or not, over any transport.
final class RawHubClient: Sendable {
    /// The connection retains this object instead of the client, so that releasing the client ends the connection.
    private final class Events: WebSocketEvents {
        private struct Weak: Sendable {
            weak var client: RawHubClient?
        }

        private let client = Lock<Weak>(Weak())

        init(_ client: RawHubClient) { self.client.withLock { $0.client = client } }

        private var owner: RawHubClient? { self.client.withLock { $0.client } }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.owner?.endings.record(reason) }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.owner?.received(batch) }
    }

    let endings = EventRecorder<CloseReason>()
    let binaryMessages = EventRecorder<[UInt8]>()
    /// The JSON messages that the test hasn't taken.
    private let messages = Lock<[[UInt8]]>([])
    private let connection = Lock<(any WebSocketConnection)?>(nil)

    convenience init(_ network: InMemoryNetwork, _ address: ListenerAddress, _ target: String, headers: HTTPHeaders = [:]) {
        self.init(network.webSocket, address, target, headers: headers)
    }

    init(_ transport: any WebSocketTransport, _ address: ListenerAddress, _ target: String, headers: HTTPHeaders = [:]) {
        let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port, target: target)
        let connection = transport.makeConnection(
            WebSocketRequest(endpoint, headers: headers), id: ConnectionID(rawValue: 1), events: Events(self))
        self.connection.withLock { $0 = connection }
        connection.open()
    }

    deinit { self.connection.withLock { $0.take() }?.abandon() }

    private func received(_ batch: borrowing MessageBatch) {
        for message in batch.messages {
            switch message.kind {
            case .text:
                let messages = message.bytes.split(separator: 0x1E).map { Array($0) }
                self.messages.withLock { $0 += messages }
            case .binary: self.binaryMessages.record(message.bytes)
            case .ping, .pong: break
            }
        }
    }

    /// Sends hub messages in one WebSocket message.
    func send(_ texts: String...) { self.send(.text(texts.map { $0 + "\u{1E}" }.joined())) }

    func send(_ message: WebSocketMessage) {
        let connection = self.connection.withLock { $0 }
        connection?.enqueue(message)
        connection?.flush()
    }

    func pauseReading() { self.connection.withLock { $0?.pauseReading() } }

    func resumeReading() {
        let connection = self.connection.withLock { $0 }
        connection?.resumeReading()
        connection?.flush()
    }

    func close(_ code: CloseCode = .normal) { self.connection.withLock { $0 }?.close(code, reason: "") }

    /// Takes the messages that have arrived.
    func take() -> [JSONValue] {
        let messages = self.messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
        return messages.map(Self.value)
    }

    /// The value of a message, or `null` if it isn't JSON.
    private static func value(_ message: [UInt8]) -> JSONValue { (try? JSONValue(parsing: message)) ?? .null }

    /// Waits for the next message. The limit suits a slow machine that runs other tests, with a sanitizer.
    func next(fileID: String = #fileID, line: Int = #line) async throws -> JSONValue {
        Self.value(try await self.nextMessage(fileID: fileID, line: line))
    }

    /// Waits for the next message, and returns it unchanged, without its separator.
    func nextMessage(fileID: String = #fileID, line: Int = #line) async throws -> [UInt8] {
        try await eventually("a message arrives", fileID: fileID, line: line) {
            self.messages.withLock { !$0.isEmpty }
        }
        return self.messages.withLock { $0.removeFirst() }
    }

    /// Waits for the end of the connection.
    func ending() async throws -> CloseReason? {
        try await eventually("the connection ends") { !self.endings.all.isEmpty }
        return self.endings.all.first
    }

    /// Calls a method and waits for the completion. Other messages must not arrive before it.
    func invoke(_ method: String, _ arguments: String = "", id: String = "1") async throws -> JSONValue {
        self.send(#"{"type":1,"invocationId":"\#(id)","target":"\#(method)","arguments":[\#(arguments)]}"#)
        return try await self.next()
    }
}
