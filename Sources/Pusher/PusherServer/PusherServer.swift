import RealtimeSystem
import PusherWire
public import RealtimeCore

/// A Pusher Channels server inside the program: for tests, for trying things out, for a demo.
///
/// ```swift
/// let app = PusherApp.random()
/// let server = PusherServer(app: app, network: network)
/// let address = try await server.start(on: network.listener())
/// server.publish("price", to: "prices", data: #"{"value":12}"#)
/// ```
/// It speaks protocol 7 with public, private and presence channels and client events, and takes events over the HTTP
/// API. Clients hear of what is published in the order in which it was published.
public final class PusherServer: ListenerHandler {
    /// The application it serves.
    public let app: PusherApp
    private let driver: SessionDriver<PusherServerMachine>
    private let unixTime: @Sendable () -> Int64
    private let listener = Lock<(any Listener)?>(nil)

    package init(
        app: PusherApp, hooks: PusherServerHooks = PusherServerHooks(), time: any TimeSource, log: LogSink = .standard,
        seed: UInt64 = .random(in: .min ... .max), unixTime: (@Sendable () -> Int64)? = nil
    ) {
        self.app = app
        self.unixTime = unixTime ?? { Self.secondsSince1970() }
        let questions = PusherServerMachine.Questions(
            connections: hooks.onConnect != nil, subscriptions: hooks.onSubscribe != nil, clientEvents: hooks.onClientEvent != nil)
        let machine = PusherServerMachine(app, asks: questions, seed: seed)
        let dependencies = SessionDriver<PusherServerMachine>.Dependencies(
            transport: NoTransport(), time: time, log: log, subsystem: "pusher-server"
        ) { work, finished in
            // A hook needs a task to run in; it is cancelled when its client has gone.
            let task = Task { finished(await hooks.verdict(on: work)) }
            return { task.cancel() }
        }
        self.driver = SessionDriver(machine, in: dependencies)
    }

    deinit { self.driver.shutDown() }

    /// A server for clients on the same in-memory network. The network's time is its time.
    public convenience init(
        app: PusherApp, network: InMemoryNetwork, hooks: PusherServerHooks = PusherServerHooks(), log: LogSink = .standard
    ) {
        self.init(app: app, hooks: hooks, time: network.time, log: log, seed: 1)
    }

    /// Begins to accept clients. A server listens in one place at a time.
    ///
    /// It throws what the listener throws, such as `addressInUse`, and `unsupported` when the server listens already.
    public func start(on listener: any Listener) async throws(TransportError) -> ListenerAddress {
        let isFree = self.listener.withLock { current -> Bool in
            guard current == nil else { return false }
            current = listener
            return true
        }
        guard isFree else { throw TransportError(.unsupported, "This server listens already: stop it first, or make another one.") }
        do throws(TransportError) {
            return try await listener.start(self)
        } catch {
            self.listener.withLock { $0 = nil }
            throw error
        }
    }

    /// Tells every client to come back soon (4200), and returns when all connections have ended.
    public func stop() async {
        self.driver.stop()
        await self.listener.withLock { $0.take() }?.stop()
    }

    /// Publishes an event to everybody on a channel, apart from one connection.
    public func publish(_ event: String, to channel: String, data: String, except socketID: String? = nil) {
        self.driver.step { $0.publish(event, to: channel, data: data, except: socketID, now: $1, &$2) }
    }

    /// What goes wrong on purpose, from now on.
    public var faults: PusherServerFaults {
        get { self.driver.read { $0.faults } }
        set { self.driver.step { machine, _, _ in machine.faults = newValue } }
    }

    /// What happens from now on. It finishes when the server is dropped.
    public var events: EventSequence<PusherServerEvent> {
        self.driver.makeSequence(.dropOldest(100_000), lifetime: .client) { events, output in
            output.append(contentsOf: events)
        } register: { machine, id, _ in
            machine.listen(id)
        }
    }

    /// The connections that are open, by their socket IDs.
    public var socketIDs: [String] { self.driver.read { $0.connections.values.filter(\.isGreeted).map(\.socketID).sorted() } }

    /// Who is on a channel, by socket ID, in the order in which they came.
    public func subscribers(of channel: String) -> [String] {
        self.driver.read { machine in (machine.channels[channel]?.subscribers ?? []).compactMap { machine.connections[$0]?.socketID } }
    }

    // MARK: Faults of one connection

    /// Closes a connection with a code.
    public func close(_ socketID: String, _ code: CloseCode, reason: String = "") {
        self.driver.step { machine, now, effects in
            machine.order(socketID, now: now, &effects) { $2.commands.append(.close($1, code, reason: reason)) }
        }
    }

    /// Cuts a connection without a goodbye.
    public func drop(_ socketID: String) {
        self.driver.step { machine, now, effects in
            var dropped: ConnectionID?
            machine.order(socketID, now: now, &effects) { _, id, effects in
                effects.commands.append(.abandon(id))
                dropped = id
            }
            let reason = CloseReason.transport(TransportError(.reset, "The server was told to drop the connection."))
            if let dropped { machine.closed(dropped, reason, now: now, &effects) }
        }
    }

    /// Stops hearing and answering a connection, without closing it.
    public func silence(_ socketID: String, _ isSilent: Bool = true) {
        self.driver.step { machine, now, effects in
            machine.order(socketID, now: now, &effects) { connection, _, _ in connection.isSilent = isSilent }
        }
    }

    /// Sends a connection a text as it is, right or wrong.
    public func send(_ frame: String, to socketID: String) {
        self.driver.step { machine, now, effects in
            machine.order(socketID, now: now, &effects) { $2.commands.append(.send($1, .text(frame))) }
        }
    }

    private static func secondsSince1970() -> Int64 { Int64(time(nil)) }

    // MARK: From the listener

    /// For the listener: every WebSocket is accepted.
    public func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        // Whom it does not want it tells so with a code, which a refused upgrade could not carry.
        .accept(subprotocol: nil)
    }

    /// For the listener: greets the client, or closes with the reason why it is refused.
    public func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.driver.adopt(connection, id: id) { $0.accepted(id, request, now: $1, &$2) }
        return self.driver
    }

    /// For the listener: a request to the HTTP API. It is answered before this returns.
    public func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        switch PusherServerAPI.handle(request, body: body, app: self.app, unixTime: self.unixTime()) {
        case .answer(let response): responder.respond(response)
        case .publish(let publication):
            self.driver.step { machine, now, effects in
                for channel in publication.channels {
                    machine.publish(publication.event, to: channel, data: publication.data, except: publication.except, now: now, &effects)
                }
            }
            responder.respond(PusherServerAPI.accepted)
        }
    }
}

extension PusherServerHooks {
    /// What nobody is asked about is accepted.
    fileprivate func verdict(on work: PusherServerMachine.Work) async -> PusherServerDecision {
        switch work {
        case .connection(let attempt): await self.onConnect?(attempt) ?? .accept
        case .subscription(let attempt): await self.onSubscribe?(attempt) ?? .accept
        case .clientEvent(let attempt): await self.onClientEvent?(attempt) ?? .accept
        }
    }
}

/// A server makes no connections.
private struct NoTransport: WebSocketTransport {
    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        preconditionFailure("a server was told to connect")
    }
}
