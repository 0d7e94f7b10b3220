import PrimusClient
import PrimusTesting
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// A kind of connection over which every behavior of a client and a server is tested.
///
/// A further kind is one more value of ``all``: the tests know neither how it is configured nor what travels.
struct BehaviorKind: Sendable, CustomTestStringConvertible {
    let name: String
    let transformer: PrimusTransformerKind
    var version = PrimusServerConfiguration.Version.v8
    /// The kinds of connections; `nil` for those that a client chooses itself.
    var connections: [PrimusConnectionKind]?
    /// How long the server waits for a client that sends no further request, if nothing else tells it about the end.
    var disconnectDelay = Duration.zero
    /// Changes the configuration of the server, after the transformer and the version.
    var configureServer: @Sendable (inout PrimusServerConfiguration) -> Void = { _ in }
    var testDescription: String { self.name }
    /// Whether a session begins with polling, and moves to a WebSocket.
    var moves: Bool { self.transformer == .engineIO && self.connections?.first == .polling && self.connections?.count == 2 }

    func configureClient(_ configuration: inout PrimusConfiguration) {
        configuration.connectionKinds = self.connections
        // A session that begins with polling doesn't move if WebSockets aren't allowed.
        if self.connections == [.polling] { configuration.allowedTransports = .polling }
    }

    /// Whether messages travel in requests over HTTP, at least at first.
    var isOverHTTP: Bool { self.connections?.contains { $0 == .polling || $0 == .streaming } ?? false }

    static let all = Self.overWebSockets + Self.overHTTP

    static let overWebSockets: [BehaviorKind] = [
        BehaviorKind(name: "websockets", transformer: .websockets),
        BehaviorKind(name: "websockets of Primus 6", transformer: .websockets, version: .v6),
        BehaviorKind(name: "faye", transformer: .faye),
        BehaviorKind(name: "uws", transformer: .uws),
        BehaviorKind(name: "sockjs, raw", transformer: .sockjs, connections: [.webSocket]),
        BehaviorKind(name: "sockjs, framed", transformer: .sockjs, connections: [.framedWebSocket]),
        BehaviorKind(name: "engine.io 4", transformer: .engineIO, connections: [.webSocket]),
        BehaviorKind(name: "engine.io 3", transformer: .engineIO, version: .v6, connections: [.webSocket]),
    ]

    static let overHTTP: [BehaviorKind] = [
        BehaviorKind(name: "sockjs, streaming", transformer: .sockjs, connections: [.streaming], disconnectDelay: .seconds(5)),
        BehaviorKind(name: "sockjs, polling", transformer: .sockjs, connections: [.polling], disconnectDelay: .seconds(5)),
        BehaviorKind(name: "engine.io 4, polling", transformer: .engineIO, connections: [.polling]),
        BehaviorKind(name: "engine.io 4, upgrade", transformer: .engineIO, connections: [.polling, .webSocket]),
        BehaviorKind(name: "engine.io 3, polling", transformer: .engineIO, version: .v6, connections: [.polling]),
        BehaviorKind(name: "engine.io 3, upgrade", transformer: .engineIO, version: .v6, connections: [.polling, .webSocket]),
    ]
}

/// A server and clients of one kind, in memory and with the manual clock.
struct Behavior: Sendable {
    let kind: BehaviorKind
    let primus: InMemoryPrimus
    var server: PrimusServer { self.primus.server }
    var clock: ManualClock { self.primus.clock }
    var network: InMemoryNetwork { self.primus.network }

    /// How long a call waits in the time of the clock, which a test advances by less.
    static let limit = Duration.seconds(1_000_000)

    init(_ kind: BehaviorKind, _ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) async throws {
        self.kind = kind
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.version) = (kind.transformer, kind.version)
        kind.configureServer(&configuration)
        configure(&configuration)
        // Other tests may use the processor for longer than the clock may stand still.
        self.primus = try await InMemoryPrimus(configuration: configuration, clock: ManualClock(standstillLimit: nil))
    }

    /// The configuration of a client of this kind.
    func configuration() -> PrimusConfiguration {
        var configuration = self.primus.configuration()
        self.kind.configureClient(&configuration)
        return configuration
    }

    func client(_ configuration: PrimusConfiguration) -> PrimusConnection {
        PrimusConnection(configuration)
    }

    func client(_ configure: (inout PrimusConfiguration) -> Void = { _ in }) -> PrimusConnection {
        var configuration = self.configuration()
        configure(&configuration)
        return self.client(configuration)
    }

    /// Creates a client that knows what the server speaks, so that the first thing that it does is to connect.
    func informedClient(_ configure: (inout PrimusConfiguration) -> Void = { _ in }) -> PrimusConnection {
        self.client { configuration in
            (configuration.detection, configuration.transformer) = (.off, self.kind.transformer)
            configure(&configuration)
        }
    }

    /// Creates a client and waits until it is open.
    func openClient(_ configure: (inout PrimusConfiguration) -> Void = { _ in }) async throws -> PrimusConnection {
        let client = self.client(configure)
        client.open()
        try await client.opened(within: Self.limit)
        try await self.settled(client)
        return client
    }

    /// Waits until a session has moved to a WebSocket, if it does: a loss in the middle is noticed later by the server.
    func settled(_ client: PrimusConnection) async throws {
        if self.kind.moves { try await eventually { client.transport == .webSockets } }
        // Another thread may not have sent the first request for messages yet.
        try await eventually { self.server.isLastSparkRead }
    }

    /// Cuts the connections of a client, and waits until it has noticed that.
    func cut(_ client: PrimusConnection) async throws {
        try await self.settled(client)
        self.network.cut()
        try await eventually { !client.isConnected }
    }

    /// Sends all messages back, until the registration is released.
    func echo() -> CallbackObservation {
        self.server.onMessage { message in _ = try? message.spark.write(message.value) }
    }

    /// Records all messages that the server receives, until the registration is released.
    func record(_ values: EventRecorder<PrimusValue>) -> CallbackObservation {
        self.server.onMessage { message in if let value = try? message.value { values.record(value) } }
    }

    /// Waits for something, and advances the clock to the next attempt whenever the client waits for that.
    ///
    /// The time doesn't advance otherwise, because an attempt, part of which runs in tasks, has a time limit.
    func advance(_ client: PrimusConnection, until condition: () async throws -> Bool) async throws {
        try await eventually {
            if try await condition() { return true }
            if let delay = client.reconnectDelay { self.clock.advance(by: max(delay, .nanoseconds(1))) }
            return try await condition()
        }
    }

    /// Waits until a client that has lost its connection is open again.
    func recover(_ client: PrimusConnection) async throws {
        try await self.advance(client) { client.isConnected }
        try await self.settled(client)
    }

    /// Advances the clock by the time after which the server knows which connections have ended.
    func disconnectDelayEnds() { self.clock.advance(by: self.kind.disconnectDelay) }

    /// Waits until the server has noticed the ends of clients, after the time that it waits for them. Another thread may still handle an
    /// answer, and a client that is ended in the middle of a move ends its session a little later.
    func expectSparks(_ condition: ([PrimusSpark]) -> Bool) async throws {
        var checks = 0
        try await eventually {
            // Rarely, because the heartbeat of open clients goes on.
            if checks.isMultiple(of: 200) { self.disconnectDelayEnds() }
            checks += 1
            return condition(self.server.sparks)
        }
    }

    /// Advances the clock by a duration, in steps in which heartbeats are answered.
    func advance(by duration: Duration, step: Duration = .seconds(1)) {
        var elapsed = Duration.zero
        while elapsed < duration {
            self.clock.advance(by: step)
            elapsed += step
        }
    }
}

extension EventSequence<PrimusEvent> {
    /// The names of the public events of the client for JavaScript so far, without those of messages.
    func names() async -> [String] { await self.allNames().filter { !$0.contains("::") } }

    /// The names of the events of the client for JavaScript so far, with the private ones, and without those of messages and heartbeats.
    func allNames() async -> [String] {
        await self.pending().compactMap { event in
            guard case .trace(let trace) = event else { return nil }
            return switch trace {
            case .outgoingOpen: "outgoing::open"
            case .outgoingReconnect: "outgoing::reconnect"
            case .outgoingEnd: "outgoing::end"
            case .outgoingURL: "outgoing::url"
            case .outgoingData: "outgoing::data"
            case .incomingOpen: "incoming::open"
            case .incomingData: "incoming::data"
            case .incomingEnd: "incoming::end"
            case .incomingError: "incoming::error"
            case .readyStateChange(let state): "readyStateChange \(state)"
            case .open: "open"
            case .close: "close"
            case .end: "end"
            case .error: "error"
            case .reconnectScheduled: "reconnect scheduled"
            case .reconnect: "reconnect"
            case .reconnected: "reconnected"
            case .reconnectTimeout: "reconnect timeout"
            case .reconnectFailed: "reconnect failed"
            case .timeout: "timeout"
            case .online: "online"
            case .offline: "offline"
            default: nil
            }
        }
    }
}

extension PrimusConnection {
    /// Whether the client is closed, for whatever reason.
    var isClosed: Bool { if case .closed = self.state { true } else { false } }

    /// The error with which the client has closed.
    var closingError: PrimusError? { if case .closed(let error) = self.state { error } else { nil } }
}
