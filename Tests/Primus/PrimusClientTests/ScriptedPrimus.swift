import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport

/// A server of Primus that says what a test wants, valid or not.
final class ScriptedPrimus: AcceptingHandler, MessageEvents {
    /// The answers of the server.
    struct Script: Sendable {
        /// The response to a request; `nil` for none.
        var response: @Sendable (HTTPRequestHead) -> HTTPResponse? = { _ in HTTPResponse(status: 200, text: ScriptedPrimus.spec()) }
        var upgrade: @Sendable (HTTPRequestHead) -> UpgradeDecision = { _ in .accept(subprotocol: nil) }
        /// The messages at the beginning of a connection.
        var greeting: [TransportMessage] = []
        /// The messages that answer a message.
        var answer: @Sendable (TransportMessage) -> [TransportMessage] = { _ in [] }
    }

    static func spec(_ transformer: String = "websockets", _ parser: String = "json") -> String {
        #"{"pingInterval":30000,"pathname":"/primus","version":"8.0.9","parser":"\#(parser)","transformer":"\#(transformer)"}"#
    }

    let requests = EventRecorder<HTTPRequestHead>()
    let upgrades = EventRecorder<HTTPRequestHead>()
    let received = EventRecorder<TransportMessage>()
    /// The requests that weren't answered.
    let silent = EventRecorder<any HTTPResponder>()
    private let connections = RawConnections()
    private let state: Lock<Script>

    init(_ script: Script = Script()) {
        self.state = Lock(script)
    }

    var script: Script {
        get { self.state.withLock { $0 } }
        set { self.state.withLock { $0 = newValue } }
    }

    var texts: [String] { self.received.all.map { String(decoding: $0.bytes, as: UTF8.self) } }
    var connectionCount: Int { self.connections.count }
    var accepted: Int { self.connections.accepted }
    var ends: EventRecorder<CloseReason> { self.connections.ends }

    /// Sends messages, which the client reads together.
    func send(_ texts: String...) { self.send(messages: texts.map { .text($0) }) }
    func send(messages: [TransportMessage]) { self.connections.send(messages) }
    func close(_ code: CloseCode = .normal) { self.connections.close(code) }
    func pauseReading() { self.connections.pauseReading() }
    func resumeReading() { self.connections.resumeReading() }

    // MARK: Listening

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.requests.record(request)
        if let response = self.script.response(request) { responder.respond(response) } else { self.silent.record(responder) }
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision {
        self.upgrades.record(request)
        return self.script.upgrade(request)
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.connections.accepted(connection, id: id)
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.send(messages: self.script.greeting) }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections.closed(id, reason) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages where message.kind == .text || message.kind == .binary {
            self.received.record(message)
            let answers = self.script.answer(message)
            if !answers.isEmpty { self.send(messages: answers) }
        }
    }
}

/// A client of a scripted server in memory.
struct PrimusFixture {
    let clock = ManualClock(standstillLimit: .seconds(60))
    let network: InMemoryNetwork
    let server: ScriptedPrimus
    let configuration: PrimusConfiguration

    init(_ script: ScriptedPrimus.Script = ScriptedPrimus.Script(), _ change: (inout PrimusConfiguration) -> Void = { _ in }) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = ScriptedPrimus(script)
        let address = try await self.network.listener().start(self.server)
        var configuration = PrimusConfiguration(
            Endpoint(scheme: "http", host: address.host, port: address.port), transports: self.network.transports())
        configuration.log = .none
        configuration.retry = .delays(Array(repeating: .seconds(1), count: 5))
        change(&configuration)
        self.configuration = configuration
    }

    /// A client that is open.
    func open() async throws -> PrimusConnection {
        let primus = PrimusConnection(self.configuration)
        primus.open()
        try await primus.opened(within: .seconds(10))
        // Another thread may still deliver what the client has sent.
        self.network.waitUntilIdle()
        return primus
    }
}
