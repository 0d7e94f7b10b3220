import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTransports
import SignalRClient
import SignalRServer
import SignalRWire
import TestSupport
import Testing

/// A server with which the snippets run.
struct ReadmeServer: Sendable, CustomStringConvertible {
    enum Kind: Sendable {
        /// The server of this package, in the process of the tests.
        case embedded
        /// ASP.NET Core, in its own process.
        case aspnet
    }

    let kind: Kind
    /// The only transport that the server offers, or `nil` if it offers all.
    var transport: HubTransport?

    var description: String { "\(self.kind) \(self.transport?.rawValue ?? "all")" }

    /// ASP.NET Core only where `REALTIME_PEERS` is set.
    private static let kinds: [Kind] = [.embedded] + Requirement.peers("aspnet").cases([.aspnet])

    /// The servers that offer all transports.
    static var available: [ReadmeServer] { self.kinds.map { ReadmeServer(kind: $0) } }

    /// The same, and those that offer only Server-Sent Events or long polling.
    static var ofAllOffers: [ReadmeServer] {
        self.kinds.flatMap { kind in [nil, .serverSentEvents, .longPolling].map { ReadmeServer(kind: kind, transport: $0) } }
    }

    /// Starts a server with a hub.
    ///
    /// - Parameter isShared: Whether other tests may use the same process. Must be `false` if negotiations are rejected.
    func start(isShared: Bool = true) async throws -> any ReadmeHub {
        switch self.kind {
        case .embedded: try await EmbeddedHub.start(self.transport)
        case .aspnet: try await ASPNETHub.start(self.transport, isShared: isShared)
        }
    }

    /// Starts a server whose connections the test drops. ASP.NET Core can drop all polls, but not those of one client.
    func startWithLosses() async throws -> any ReadmeHub { try await self.start(isShared: self.transport != .longPolling) }
}

/// A hub with the methods that the README of signalr-client-swift presumes, and what the tests do to its server.
protocol ReadmeHub: Sendable {
    var url: String { get }

    /// Returns the name that a method of the README has on this hub, or by which this hub calls a method of the client.
    func name(_ readmeName: String) -> String
    /// Drops the connection of a client, without a close message.
    func drop(_ connection: HubConnection) async throws
    /// Sets whether the server rejects the negotiations of all clients.
    func setRejectsNegotiations(_ rejects: Bool) async throws
    /// Stops the server, unless it is shared.
    func stop() async throws
}

/// A server of this package with one hub, on a port.
final class EmbeddedHub: ReadmeHub {
    let server: SignalRServer
    let hub: Hub
    let url: String

    private init(_ server: SignalRServer, _ hub: Hub, _ url: String) {
        (self.server, self.hub, self.url) = (server, hub, url)
    }

    static func start(_ transport: HubTransport? = nil) async throws -> EmbeddedHub {
        var configuration = SignalRServerConfiguration()
        if let transport { configuration.transports = HubTransportKinds(transport) }
        // Other tests use the processor.
        configuration.connectTimeout = .seconds(600)
        configuration.handshakeTimeout = .seconds(600)
        configuration.clientTimeout = .seconds(600)
        configuration.clientResultTimeout = .seconds(600)
        configuration.disconnectTimeout = .seconds(600)
        let server = SignalRServer(configuration: configuration, log: .none)
        let hub = server.hub("/chat")
        hub.on("SendMessage") { (caller, user: String, message: String) in
            try await caller.clients.all.send("ReceiveMessage", user, message)
        }
        hub.on("TriggerClientResult") { (caller, method: String, question: String) async throws -> String in
            try await caller.clients.caller.invoke(method, question)
        }
        hub.on("Rename") { (caller, person: [String: String], name: String) in person.mapValues { _ in name } }
        hub.on("Fail") { (caller, message: String) async throws -> Void in throw HubException(message) }
        hub.on("Count") { (caller, offset: Int, numbers: HubStream<Int>) async throws -> Int in try await numbers.reduce(offset, +) }
        hub.stream("StreamMethod") { (caller) in
            AsyncStream<String> { continuation in
                for item in ["a", "b", "c"] { continuation.yield(item) }
                continuation.finish()
            }
        }
        let address = try await server.start(on: SocketListener(limits: .forTests))
        return EmbeddedHub(server, hub, "http://\(address.host):\(address.port)/chat")
    }

    func name(_ readmeName: String) -> String { readmeName }

    func drop(_ connection: HubConnection) throws { self.server.drop(try #require(connection.connectionId)) }

    func setRejectsNegotiations(_ rejects: Bool) { self.server.faults.negotiationStatus = rejects ? 503 : nil }

    func stop() async { await self.server.stop() }
}

/// A server of ASP.NET Core, whose hub has methods with the same parameters and results, but other names.
final class ASPNETHub: ReadmeHub {
    private static let names = [
        "SendMessage": "Echo", "ReceiveMessage": "EchoBack", "TriggerClientResult": "AskClient", "Fail": "Boom", "Count": "AddNumbers",
        "StreamMethod": "Stream",
    ]

    /// The server for all tests that don't change it. It ends with the process of the tests.
    private static let shared = Task { try await ASPNETHub.startServer() }

    private let peer: Peer
    private let port: Int
    private let transport: HubTransport?
    private let isShared: Bool

    private init(_ peer: Peer, _ port: Int, _ transport: HubTransport?, isShared: Bool) {
        (self.peer, self.port, self.transport, self.isShared) = (peer, port, transport, isShared)
    }

    static func start(_ transport: HubTransport?, isShared: Bool) async throws -> ASPNETHub {
        let (peer, port) = isShared ? try await self.shared.value : try await self.startServer()
        return ASPNETHub(peer, port, transport, isShared: isShared)
    }

    private static func startServer() async throws -> (Peer, port: Int) {
        let peer = try Peer("aspnet")
        return (peer, try #require(try await peer.ready()["port"]?.int))
    }

    var url: String {
        let path =
            switch self.transport {
            case nil: "test"
            case .webSockets: "ws"
            case .serverSentEvents: "sse"
            case .longPolling: "lp"
            }
        return "http://127.0.0.1:\(self.port)/\(path)"
    }

    func name(_ readmeName: String) -> String { Self.names[readmeName] ?? readmeName }

    func drop(_ connection: HubConnection) async throws {
        // Over HTTP, the server resets the connection before it answers the request.
        guard !self.isShared else {
            try? await connection.send(method: "CutMe")
            return
        }
        try await ASPNETControl(port: self.port).cut()
    }

    func setRejectsNegotiations(_ rejects: Bool) async throws {
        try #require(!self.isShared)
        try await ASPNETControl(port: self.port)("refuse?times=\(rejects ? Int(Int32.max) : 0)&status=503")
    }

    func stop() async throws { if !self.isShared { try await self.peer.stopped() } }
}
