import PrimusClient
import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A server of Primus that says what a test wants, with the parser `json` and without framing.
final class PluginServer: AcceptingHandler, MessageEvents {
    /// The messages of the client, except those of Primus itself.
    let received = EventRecorder<String>()
    private let connections = RawConnections()
    private let answer = Lock<@Sendable (String) -> [String]>({ _ in [] })

    var accepted: Int { self.connections.accepted }

    /// Answers each message of the client.
    func answer(_ answer: @escaping @Sendable (String) -> [String]) { self.answer.withLock { $0 = answer } }

    /// Sends messages, which the client reads together.
    func send(_ texts: String...) { self.connections.send(texts.map { .text($0) }) }

    func send(_ message: TransportMessage) { self.connections.send([message]) }

    func close() { self.connections.close(.goingAway) }

    /// Waits until the server has received a number of messages in total.
    func received(_ count: Int) async throws -> [String] {
        try await eventually("\(count) messages") { self.received.all.count >= count }
        return self.received.all
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 404, text: ""))
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.connections.accepted(connection, id: id)
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections.closed(id, reason) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages where message.kind == .text || message.kind == .binary {
            let text = String(decoding: message.bytes, as: UTF8.self)
            if text.hasPrefix("\"primus::") { continue }
            self.received.record(text)
            let answers = self.answer.withLock { $0 }(text)
            if !answers.isEmpty { self.connections.send(answers.map { .text($0) }) }
        }
    }
}

/// A client of such a server in memory.
struct PluginFixture: Sendable {
    let clock = ManualClock(standstillLimit: .seconds(60))
    let network: InMemoryNetwork
    let server = PluginServer()
    let primus: PrimusConnection
    let errors = EventRecorder<PrimusError>()
    private let registration: PrimusObservation

    init(_ configure: (inout PrimusConfiguration) -> Void = { _ in }) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        let address = try await self.network.listener().start(self.server)
        var configuration = try PrimusConfiguration(url: "http://\(address.host):\(address.port)/primus")
        configuration.transports = self.network.transports()
        configuration.detection = .off
        configuration.plugins = [.emitter, .multiplex, .substream, .responder, .emit]
        configuration.log = .none
        configure(&configuration)
        self.primus = PrimusConnection(configuration)
        self.registration = self.primus.onUpdate(on: PrimusCallbackExecutor { $0() }) { [errors] update in
            if case .error(let error) = update { errors.record(error) }
        }
    }

    /// A fixture whose client is open.
    static func opened(_ configure: (inout PrimusConfiguration) -> Void = { _ in }) async throws -> PluginFixture {
        let fixture = try await PluginFixture(configure)
        fixture.primus.open()
        try await fixture.primus.opened()
        // Another thread may still deliver what the client has sent.
        fixture.network.waitUntilIdle()
        return fixture
    }

    /// Begins a call in a task, and returns when the server has received it.
    func begin<Value: Sendable>(
        _ call: @escaping @Sendable (PrimusConnection) async throws -> Value
    ) async throws -> Task<Value, any Error> {
        let count = self.server.received.all.count
        let task = Task { [primus] in try await call(primus) }
        _ = try await self.server.received(count + 1)
        return task
    }

    /// Loses the connection, and waits for the next one.
    func reconnect() async throws {
        let accepted = self.server.accepted
        self.server.close()
        try await eventually("the loss") { self.primus.state != .open || self.server.accepted > accepted }
        self.primus.reconnectNow()
        try await eventually("the next connection") { self.primus.state == .open && self.server.accepted > accepted }
    }
}

/// The error of a call.
func primusError(_ call: () async throws -> Void) async -> PrimusError? {
    do {
        try await call()
        return nil
    } catch {
        return error as? PrimusError
    }
}
