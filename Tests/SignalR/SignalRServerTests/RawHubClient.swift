import RealtimeCore
import RealtimeCoding
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

/// A client that sends the messages of a test, valid or not, over any transport. Releasing it ends the connection.
final class RawHubClient: Sendable {
    /// The messages that have arrived.
    private final class Inbox: Sendable {
        let binaryMessages = EventRecorder<[UInt8]>()
        /// The JSON messages that the test hasn't taken.
        let messages = Lock<[[UInt8]]>([])

        func receive(_ message: WebSocketMessage) {
            switch message.kind {
            case .text:
                let messages = message.bytes.split(separator: 0x1E).map { Array($0) }
                self.messages.withLock { $0 += messages }
            case .binary: self.binaryMessages.record(message.bytes)
            case .ping, .pong: break
            }
        }
    }

    private let inbox = Inbox()
    private let socket: RawSocket

    convenience init(_ network: InMemoryNetwork, _ address: ListenerAddress, _ target: String, headers: HTTPHeaders = [:]) {
        self.init(network.webSocket, address, target, headers: headers)
    }

    init(_ transport: any WebSocketTransport, _ address: ListenerAddress, _ target: String, headers: HTTPHeaders = [:]) {
        self.socket = RawSocket(transport, address, target, headers: headers) { [inbox] in inbox.receive($0) }
    }

    var endings: EventRecorder<CloseReason> { self.socket.endings }
    var binaryMessages: EventRecorder<[UInt8]> { self.inbox.binaryMessages }

    /// Sends hub messages in one WebSocket message.
    func send(_ texts: String...) { self.send(.text(texts.map { $0 + "\u{1E}" }.joined())) }

    func send(_ message: WebSocketMessage) { self.socket.send([message]) }

    func pauseReading() { self.socket.pauseReading() }
    func resumeReading() { self.socket.resumeReading() }
    func close(_ code: CloseCode = .normal) { self.socket.close(code) }

    /// Takes the messages that have arrived.
    func take() -> [JSONValue] {
        let messages = self.inbox.messages.withLock { messages in
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
            self.inbox.messages.withLock { !$0.isEmpty }
        }
        return self.inbox.messages.withLock { $0.removeFirst() }
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
