import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire

/// A hub that says what a test wants, valid or not.
final class ScriptedHub: AcceptingHandler, MessageEvents {
    static let separator = "\u{1E}"

    /// The answers of the hub. Closures receive the number of the request, from 1.
    struct Script: Sendable {
        /// The response to a negotiation; `nil` for none.
        var negotiate: @Sendable (HTTPRequestHead, _ number: Int) -> HTTPResponse? = { _, number in ScriptedHub.response(number) }
        var upgrade: @Sendable (HTTPRequestHead, _ number: Int) -> UpgradeDecision = { _, _ in .accept(subprotocol: nil) }
        /// The bytes that answer the handshake; `nil` for none.
        var handshake: @Sendable (_ number: Int) -> String? = { _ in "{}\u{1E}" }
        /// The messages that answer a message.
        var answer: @Sendable (JSONValue) -> [String] = { _ in [] }
    }

    let negotiations = EventRecorder<HTTPRequestHead>()
    let upgrades = EventRecorder<HTTPRequestHead>()
    /// The messages after the handshake, but no pings.
    let received = EventRecorder<JSONValue>()
    /// The same if the client uses MessagePack.
    let receivedPacked = EventRecorder<HubMessage>()
    let handshakes = EventRecorder<String>()
    let pings = EventRecorder<JSONValue>()
    /// The requests that weren't answered.
    let silent = EventRecorder<any HTTPResponder>()

    private struct State: Sendable {
        var script: Script
        var isReady: Set<ConnectionID> = []
        var handshakeCount = 0
    }

    private let connections = RawConnections()
    private let state: Lock<State>

    init(_ script: Script = Script()) {
        self.state = Lock(State(script: script))
    }

    var script: Script {
        get { self.state.withLock { $0.script } }
        set { self.state.withLock { $0.script = newValue } }
    }

    static func response(_ number: Int) -> HTTPResponse {
        HTTPResponse(
            status: 200,
            text: """
                {"connectionToken":"secret-token-\(number)","connectionId":"id-\(number)","negotiateVersion":1,"extra":null,\
                "availableTransports":[{"transport":"WebSockets","transferFormats":["Text","Binary"]}]}
                """)
    }

    static func json(_ text: String, status: Int = 200) -> HTTPResponse { HTTPResponse(status: status, text: text) }

    // MARK: What the test does

    var connectionCount: Int { self.connections.count }
    var ends: EventRecorder<CloseReason> { self.connections.ends }

    /// Sends messages in one frame on the newest connection.
    func send(_ messages: String...) { self.send(raw: messages.map { $0 + Self.separator }.joined()) }

    func send(raw text: String) { self.send(frames: [text]) }

    func send(frames: [String]) { self.send(frames.map { TransportMessage.text($0) }) }

    /// Sends messages in one frame, in the format of the client.
    func send(_ messages: [HubMessage], _ format: HubFormat) {
        var bytes: [UInt8] = []
        for message in messages { HubMessageWriter.append(message, format, to: &bytes) }
        self.send([TransportMessage(format.messageKind, bytes)])
    }

    func send(_ frames: [TransportMessage]) { self.connections.send(frames) }
    func close(_ code: CloseCode, _ reason: String = "") { self.connections.close(code, reason) }
    func pauseReading() { self.connections.pauseReading() }
    func resumeReading() { self.connections.resumeReading() }

    /// Waits until the hub has received a number of messages in total.
    func received(_ count: Int) async throws -> [JSONValue] {
        try await eventually("\(count) messages") { self.received.all.count >= count }
        return self.received.all
    }

    /// Waits until the hub has received a number of messages of any format in total.
    func awaitMessages(_ count: Int) async throws {
        try await eventually("\(count) messages") { self.messageCount >= count }
    }

    var messageCount: Int { self.received.all.count + self.receivedPacked.all.count }

    // MARK: Listening

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.negotiations.record(request)
        if let response = self.script.negotiate(request, self.negotiations.all.count) {
            responder.respond(response)
        } else {
            self.silent.record(responder)
        }
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision {
        self.upgrades.record(request)
        return self.script.upgrade(request, self.upgrades.all.count)
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.connections.accepted(connection, id: id)
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections.closed(id, reason) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages {
            if message.kind == .ping {
                self.pings.record("websocket")
                continue
            }
            // Also a connection that is resumed, which has no handshake.
            if message.kind == .binary, self.isReady(id) || message.bytes.first != UInt8(ascii: "{") {
                var reader = HubMessageReader(.messagePack, messageLimit: 1 << 24)
                try? Array(message.bytes).withUnsafeBytes { bytes in
                    try reader.read(bytes) { if case .message(let message) = $0, message != .ping { self.receivedPacked.record(message) } }
                }
                continue
            }
            for text in String(decoding: message.bytes, as: UTF8.self).split(separator: "\u{1E}") { self.receive(String(text), id) }
        }
    }

    private func isReady(_ id: ConnectionID) -> Bool { self.state.withLock { $0.isReady.contains(id) } }

    private func receive(_ text: String, _ id: ConnectionID) {
        let number = self.state.withLock { state -> Int? in
            guard state.isReady.insert(id).inserted else { return nil }
            state.handshakeCount += 1
            return state.handshakeCount
        }
        if let number {
            self.handshakes.record(text)
            // A connection that is resumed begins with the number of a message.
            if text.contains(#""protocol""#), let answer = self.script.handshake(number) { self.send(raw: answer) }
            return
        }
        guard let message = try? JSONValue(parsing: text) else { return }
        if message["type"] == 6 { return self.pings.record(message) }
        self.received.record(message)
        let answers = self.script.answer(message)
        if !answers.isEmpty { self.send(raw: answers.map { $0 + Self.separator }.joined()) }
    }
}

/// A client of a scripted hub in memory, whose updates and log messages are recorded.
struct HubFixture {
    let clock = ManualClock(standstillLimit: .seconds(60))
    let network: InMemoryNetwork
    let server: ScriptedHub
    let client: HubClient
    let updates = EventRecorder<HubUpdate>()
    let log = EventRecorder<String>()
    private let token: CallbackObservation

    /// - Parameter negotiates: Whether to negotiate. Without, everything happens when the client is started, on the same thread.
    init(
        negotiates: Bool = false, _ script: ScriptedHub.Script = ScriptedHub.Script(),
        _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = ScriptedHub(script)
        let address = try await self.network.listener().start(self.server)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat?room=1")
        var options = HubConfiguration(endpoint, transports: self.network.transports())
        options.skipsNegotiation = !negotiates
        if !negotiates { options.allowedTransports = .webSockets }
        // A call that would never end fails after a minute, because the clock stands still.
        options.callTimeLimit = .seconds(100_000)
        options.log = LogSink(minimumLevel: .debug) { [log] _, _, message in log.record(message) }
        configure(&options)
        self.client = HubClient(options)
        self.token = self.client.onUpdate(on: HubCallbackExecutor { $0() }) { [updates] in updates.record($0) }
    }

    /// A fixture whose client is connected.
    static func connected(
        negotiates: Bool = false, _ script: ScriptedHub.Script = ScriptedHub.Script(),
        _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws -> HubFixture {
        let fixture = try await HubFixture(negotiates: negotiates, script, configure)
        try await fixture.client.start()
        return fixture
    }

    /// The updates without the states.
    var events: [HubUpdate] {
        self.updates.all.filter {
            switch $0 {
            case .state, .transport: false
            default: true
            }
        }
    }

    var states: [HubState] {
        self.updates.all.compactMap { if case .state(let state) = $0 { state } else { nil } }
    }

    var isConnected: Bool { if case .connected = self.client.state { true } else { false } }
    var isReconnecting: Bool { if case .reconnecting = self.client.state { true } else { false } }

    var stopError: HubError? { if case .stopped(let error) = self.client.state { error } else { nil } }
    var isStopped: Bool { if case .stopped = self.client.state { true } else { false } }

    func payload<each Argument: Encodable>(_ arguments: repeat each Argument) throws -> HubPayload {
        try self.client.coder.arguments(repeat each arguments)
    }

    /// Begins a call in a task, and returns when the server has received it.
    func begin<Value: Sendable>(_ call: @escaping @Sendable (HubClient) async throws -> Value) async throws -> Task<Value, any Error> {
        let count = self.server.messageCount
        let task = Task { [client] in try await call(client) }
        try await self.server.awaitMessages(count + 1)
        // The thread of the call may still deliver on the network, and would deliver what the test sends.
        self.network.waitUntilIdle()
        return task
    }
}

/// Returns the error that a closure throws.
func hubError<Value>(_ body: () async throws -> Value) async -> HubError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? HubError
    }
}

extension HubUpdate {
    var isReconnecting: Bool { if case .reconnecting = self { true } else { false } }
    var isClosed: Bool { if case .closed = self { true } else { false } }
    var isReconnected: Bool { if case .reconnected = self { true } else { false } }
}
