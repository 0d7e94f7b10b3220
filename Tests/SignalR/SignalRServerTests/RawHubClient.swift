import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// A server with one hub on an in-memory network with a manual clock.
struct HubUnderTest {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let server: SignalRServer
    let hub: Hub
    let address: ListenerAddress

    /// - Parameter turns: Where the turns of the server are taken; `nil` if its work has no turns.
    init(
        hooks: SignalRServerHooks = SignalRServerHooks(), log: LogSink = .none, turns: TurnTime? = nil,
        _ change: (inout SignalRServerConfiguration) -> Void = { _ in }
    ) async throws {
        var configuration = SignalRServerConfiguration()
        change(&configuration)
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = SignalRServer(configuration: configuration, hooks: hooks, time: turns ?? self.network.time, log: log, seed: 1)
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

    /// The names of the transports that a negotiation offers.
    func offers() async throws -> String {
        let offers = try await self.negotiate()["availableTransports"]?.array ?? []
        return offers.map { $0["transport"]?.string ?? "" }.joined(separator: ", ")
    }

    /// Negotiates, and opens a connection over HTTP. Its handshake isn't complete.
    func open(_ transport: HubTransport, headers: HTTPHeaders = [:]) async throws -> RawHTTPHubClient {
        let token = try await self.negotiate(headers: headers)["connectionToken"]?.string ?? ""
        return RawHTTPHubClient(self.network.http, self.address, "/hub?id=\(token)", transport, headers: headers)
    }

    /// Connects a client over HTTP, and completes its handshake.
    func connect(_ transport: HubTransport, headers: HTTPHeaders = [:]) async throws -> RawHTTPHubClient {
        let client = try await self.open(transport, headers: headers)
        client.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(client.next(), [:])
        return client
    }

    func negotiate(_ target: String = "/hub/negotiate?negotiateVersion=1", headers: HTTPHeaders = [:]) async throws -> JSONValue {
        let response = try await self.request("POST", target, headers: headers)
        return try JSONValue(parsing: response.body)
    }
}

/// The messages that have arrived at a client.
final class HubInbox: Sendable {
    let binaryMessages = EventRecorder<[UInt8]>()
    /// The JSON messages that the test hasn't taken.
    private let messages = Lock<[[UInt8]]>([])

    func receive(_ message: TransportMessage) {
        switch message.kind {
        case .text: self.receiveJSON(message.bytes)
        case .binary: self.binaryMessages.record(message.bytes)
        case .ping, .pong: break
        }
    }

    func receiveJSON(_ bytes: [UInt8]) {
        let messages = bytes.split(separator: 0x1E).map { Array($0) }
        self.messages.withLock { $0 += messages }
    }

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
}

/// A client that sends the messages of a test, valid or not, over a WebSocket. Releasing it ends the connection.
final class RawHubClient: Sendable {
    private let inbox = HubInbox()
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

    func send(_ message: TransportMessage) { self.socket.send([message]) }

    func pauseReading() { self.socket.pauseReading() }
    func resumeReading() { self.socket.resumeReading() }
    func close(_ code: CloseCode = .normal) { self.socket.close(code) }

    func take() -> [JSONValue] { self.inbox.take() }

    /// Waits for the next message.
    func next(fileID: String = #fileID, line: Int = #line) async throws -> JSONValue {
        try await self.inbox.next(fileID: fileID, line: line)
    }

    /// Waits for the next message, and returns it unchanged, without its separator.
    func nextMessage(fileID: String = #fileID, line: Int = #line) async throws -> [UInt8] {
        try await self.inbox.nextMessage(fileID: fileID, line: line)
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
