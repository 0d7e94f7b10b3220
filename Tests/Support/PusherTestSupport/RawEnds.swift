package import RealtimeCoding
package import RealtimeCore
package import PusherChannels
import PusherServer
package import PusherTesting
package import RealtimeTesting
import TestSupport

/// A server that sends the frames of a test, valid or not.
package final class RawServer: AcceptingHandler, MessageEvents {
    package static let greeting = #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\",\"activity_timeout\":120}"}"#

    package let received = EventRecorder<JSONValue>()
    private let connections = RawConnections()
    private let greeting: [TransportMessage]
    private let respond: @Sendable (_ event: String, _ data: JSONValue) -> [String]

    package init(greeting: [TransportMessage], respond: @escaping @Sendable (_ event: String, _ data: JSONValue) -> [String]) {
        self.greeting = greeting
        self.respond = respond
    }

    /// The number of accepted connections.
    package var accepted: Int { self.connections.accepted }

    /// Sends messages on the newest connection, which reads all of them together.
    package func send(_ messages: [TransportMessage]) { self.connections.send(messages) }

    package func send(_ frames: String...) { self.send(frames.map { TransportMessage.text($0) }) }

    package func close(_ code: CloseCode, _ reason: String = "") { self.connections.close(code, reason) }

    package func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 404))
    }
    package func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

    package func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.connections.accepted(connection, id: id)
        return self
    }

    package func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.send(self.greeting) }
    package func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections.closed(id, reason) }

    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages where message.kind == .text {
            guard let frame = try? JSONValue(parsing: message.bytes) else { continue }
            self.received.record(frame)
            self.send(self.respond(frame["event"]?.string ?? "", frame["data"] ?? .null).map { .text($0) })
        }
    }
}

/// A client on an in-memory network, connected to a raw server.
package struct RawPusher {
    package let clock = ManualClock()
    package let network: InMemoryNetwork
    package let server: RawServer
    package let client: PusherClient

    package init(
        greeting: [String] = [RawServer.greeting], authorizer: PusherAuthorizer = .secret("secret", userID: "me"), log: LogSink = .none,
        respond: @escaping @Sendable (_ event: String, _ data: JSONValue) -> [String] = RawPusher.subscribing
    ) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = RawServer(greeting: greeting.map { .text($0) }, respond: respond)
        let address = try await self.network.listener().start(self.server)
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
        configuration.transports = self.network.transports()
        configuration.authorizer = authorizer
        configuration.log = log
        self.client = PusherClient(configuration)
    }

    /// Confirms every subscription.
    package static let subscribing: @Sendable (String, JSONValue) -> [String] = { event, data in
        guard event == "pusher:subscribe", let channel = data["channel"]?.string else { return [] }
        let text = channel.hasPrefix("presence-") ? #"{\"presence\":{\"ids\":[\"me\"],\"hash\":{\"me\":null},\"count\":1}}"# : "{}"
        return [#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"\#(text)"}"#]
    }
}

/// A client that sends the frames of a test, valid or not. Releasing it ends the connection.
package final class RawClient: Sendable {
    package let frames = EventRecorder<String>()
    private let socket: RawSocket

    /// Opens a connection.
    package convenience init(_ pusher: InMemoryPusher, _ target: String = "/app/key?protocol=7") {
        self.init(pusher.network, pusher.address, target)
    }

    package init(_ network: InMemoryNetwork, _ address: ListenerAddress, _ target: String = "/app/key?protocol=7") {
        self.socket = RawSocket(network.webSocket, address, target) { [frames] message in
            if message.kind == .text { frames.record(String(decoding: message.bytes, as: UTF8.self)) }
        }
    }

    package var endings: EventRecorder<CloseReason> { self.socket.endings }

    /// Removes and returns the frames received since the last call.
    package func take() -> [String] { self.frames.take() }

    /// Removes the frames received since the last call, and returns their event names.
    package func takeEvents() -> [String] { self.take().map { (try? JSONValue(parsing: $0))?["event"]?.string ?? "?" } }

    /// Removes the frames received since the last call, and returns the codes of error events, which may be `nil`.
    package func takeErrors() -> [Int?] {
        self.take().compactMap { try? JSONValue(parsing: $0) }.filter { $0["event"] == "pusher:error" }.map { $0["data"]?["code"]?.int }
    }

    package var closeCode: Int? { if case .peer(let code, _)? = self.endings.all.last { Int(code.rawValue) } else { nil } }

    /// Whether the connection has ended without a close frame.
    package var isDropped: Bool { if case .transport? = self.endings.all.last { true } else { false } }

    @discardableResult
    package func send(_ messages: TransportMessage...) -> Self {
        self.socket.send(messages)
        return self
    }

    @discardableResult
    package func send(_ text: String) -> Self { self.send(.text(text)) }

    package func close() { self.socket.close() }
}
