import RealtimeSystem
import PusherWire
public import RealtimeCore
import RealtimeTransports

/// A Pusher Channels server that runs inside a program, for tests, development and demos.
///
/// ```swift
/// let app = PusherApp.random()
/// let server = PusherServer(app: app, network: network)
/// let address = try await server.start(on: network.listener())
/// server.publish("price", to: "prices", data: #"{"value":12}"#)
/// ```
/// The server implements protocol 7 with all kinds of channels, client events, users who sign in, and watchlists. It publishes events and
/// responds to queries that arrive over the HTTP API, and reports events with webhooks. The subscribers of a channel receive events in the
/// order in which they were published.
///
/// Keep a reference to the server for as long as it is needed. Releasing it closes its connections (close code 1001) and stops its
/// listener; to ask clients to reconnect and to wait until all connections have ended, call ``stop()``.
public final class PusherServer: Sendable {
    /// The app that the server serves.
    public let app: PusherApp
    let handler: PusherServerHandler
    private let driver: SessionDriver<PusherServerMachine>
    private let listener = ServerListener()
    /// The app's key for encrypted channels.
    private let masterKey: EncryptionKey?
    private let webhooks: WebhookSender?

    /// - Parameter http: The HTTP transport of webhooks that have none of their own.
    package init(
        app: PusherApp, hooks: PusherServerHooks = PusherServerHooks(), webhooks: PusherServerWebhooks? = nil,
        http: (any HTTPTransport)? = nil, time: any TimeSource, log: LogSink = .standard, seed: UInt64? = nil,
        unixTime: @escaping @Sendable () -> Int64 = { WallClock.secondsSince1970 }
    ) {
        self.app = app
        self.masterKey = app.masterKey
        if app.encryptionMasterKey != nil, self.masterKey == nil {
            log.log(.error, "pusher-server", "The encryptionMasterKey of the app isn't 32 bytes in Base64, and is ignored.")
        }
        let machine = PusherServerMachine(app, hooks: hooks.enabled, seed: seed)
        let dependencies = SessionDriver<PusherServerMachine>.Dependencies(
            time: time, log: log, subsystem: "pusher-server"
        ) { work, id, driver in
            // A hook is asynchronous and needs a task to run in. The driver cancels it when its result is no longer needed.
            let task = Task { driver.workFinished(id, await hooks.decision(about: work)) }
            return { task.cancel() }
        }
        let driver = SessionDriver(machine, in: dependencies)
        self.driver = driver
        self.webhooks = webhooks.map {
            WebhookSender($0, app: app, http: $0.http ?? http ?? Transports.standard.http, of: driver, time: time, log: log)
        }
        let injector = FaultInjector(time: time, seed: seed ?? .random(in: .min ... .max))
        self.handler = PusherServerHandler(app: app, driver: self.driver, injector: injector, unixTime: unixTime)
    }

    deinit {
        // The handler first, so that no client connects again before the listener has stopped.
        self.handler.shutDown()
        self.driver.step { machine, _, effects in machine.release(&effects) }
        self.driver.shutDown()
    }

    /// Creates a server for clients on the same in-memory network. The server uses the network's clock.
    ///
    /// - Parameters:
    ///   - app: The app that the server serves.
    ///   - network: The network of the clients.
    ///   - hooks: Closures that decide what the server accepts.
    ///   - webhooks: Requests with which the server reports events to application servers; `nil` for none.
    ///   - log: The destination of log messages.
    public convenience init(
        app: PusherApp, network: InMemoryNetwork, hooks: PusherServerHooks = PusherServerHooks(), webhooks: PusherServerWebhooks? = nil,
        log: LogSink = .standard
    ) {
        self.init(app: app, hooks: hooks, webhooks: webhooks, http: network.transports().http, time: network.time, log: log, seed: 1)
    }

    /// Creates a server for clients on sockets. Start it on a `SocketListener`.
    ///
    /// - Parameters:
    ///   - app: The app that the server serves.
    ///   - hooks: Closures that decide what the server accepts.
    ///   - webhooks: Requests with which the server reports events to application servers; `nil` for none.
    ///   - log: The destination of log messages.
    public convenience init(
        app: PusherApp, hooks: PusherServerHooks = PusherServerHooks(), webhooks: PusherServerWebhooks? = nil, log: LogSink = .standard
    ) {
        self.init(app: app, hooks: hooks, webhooks: webhooks, time: Transports.standard.time, log: log)
    }

    /// Starts accepting clients.
    ///
    /// A server has one listener at a time. After ``stop()`` it can be started again.
    ///
    /// - Parameter listener: A listener that hasn't been started, such as a `SocketListener` or an `InMemoryListener`.
    /// - Returns: The address at which clients reach the server.
    /// - Throws: The `TransportError` of the listener, for example with the code `addressInUse`, one with the code `unsupported` if the
    ///   server is already started, or one with the code `closed` if ``stop()`` was called meanwhile.
    @discardableResult
    public func start(on listener: any Listener) async throws(TransportError) -> ListenerAddress {
        try await self.listener.start(listener, self.handler) { self.driver.stop() }
    }

    /// Stops the server: asks every client to reconnect soon (close code 4200) and stops the listener.
    ///
    /// Returns when all connections have ended. If the server is being started or stopped, the method waits until it has stopped; if it isn't
    /// started, the method returns immediately.
    public func stop() async {
        // Without a listener of its own, the server can have connections of one that it shares; see `listenerHandler`.
        await self.listener.stop { self.driver.stop() }
    }

    /// The handler of the server's clients, for a listener that several handlers share.
    ///
    /// ```swift
    /// let router = ListenerRouter([
    ///     .path("/app", server.listenerHandler), .path("/apps", server.listenerHandler), .path("/chat", chat),
    /// ])
    /// let address = try await listener.start(router)
    /// ```
    /// Clients connect below `/app`, and events are published below `/apps`. Don't call ``start(on:)`` for this. ``stop()`` then only asks
    /// the connected clients to reconnect; stop the listener first. After the server has been released, the handler rejects everything.
    public var listenerHandler: any ListenerHandler { self.handler }

    // MARK: Publishing

    /// Returns the data of an event as a publisher sends it: on an encrypted channel encrypted, if the app has a key.
    private func encrypted(_ data: String, for channel: String) -> String {
        guard let masterKey, ChannelName.kind(of: channel).isEncrypted else { return data }
        let key = masterKey.sharedSecret(of: channel)
        // A nonce of the right length is the only requirement.
        guard let payload = try? EncryptedPayload(encrypting: data, key: key, nonce: EncryptedPayload.nonce()) else {
            preconditionFailure("The nonce has the wrong length.")
        }
        return payload.json
    }

    /// Publishes an event to the subscribers of a channel.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event, usually JSON. It is encrypted if the channel is encrypted and the app has a key, and otherwise
    ///     sent unchanged.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    public func publish(_ event: String, to channel: String, data: String, except socketID: String? = nil) {
        self.publish(event, to: [channel], data: data, except: socketID)
    }

    /// Publishes an event to the subscribers of several channels.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of the channels.
    ///   - data: The data of the event, usually JSON. It is encrypted if the channel is encrypted and the app has a key, and otherwise
    ///     sent unchanged.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    public func publish(_ event: String, to channels: [String], data: String, except socketID: String? = nil) {
        let publications = channels.map { ($0, self.encrypted(data, for: $0)) }
        self.driver.step { machine, now, effects in
            for (channel, data) in publications { machine.publish(event, to: channel, data: data, except: socketID, now: now, &effects) }
        }
    }

    /// Publishes an event with tags, which the filters of subscribers refer to.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event, usually JSON. It is encrypted if the channel is encrypted and the app has a key, and otherwise
    ///     sent unchanged.
    ///   - tags: The values of the tags by their names. They are sent as plain text, and only used if the app
    ///     ``PusherApp/allowsFilters``.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    public func publish(_ event: String, to channel: String, data: String, tags: [String: String], except socketID: String? = nil) {
        let data = self.encrypted(data, for: channel)
        let tags = self.app.allowsFilters ? EventTags(tags) : nil
        self.driver.step { $0.publish(event, to: channel, data: data, tags: tags, except: socketID, now: $1, &$2) }
    }

    /// Publishes an event to the subscribers of a channel, with a value as its data.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event, which is encoded as JSON on the calling thread. A `String` is sent unchanged.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    /// - Throws: An `EncodingError`, or the error that the `encode(to:)` of the data throws.
    public func publish(_ event: String, to channel: String, data: some Encodable, except socketID: String? = nil) throws {
        self.publish(event, to: [channel], data: try EventData.text(of: data), except: socketID)
    }

    /// Publishes an event to the subscribers of several channels, with a value as its data.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of the channels.
    ///   - data: The data of the event, which is encoded as JSON on the calling thread. A `String` is sent unchanged.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    /// - Throws: An `EncodingError`, or the error that the `encode(to:)` of the data throws.
    public func publish(_ event: String, to channels: [String], data: some Encodable, except socketID: String? = nil) throws {
        self.publish(event, to: channels, data: try EventData.text(of: data), except: socketID)
    }

    /// Publishes an event to a user, on all connections that are signed in as the user.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - userID: The ID of the user.
    ///   - data: The data of the event, usually JSON. It is sent unchanged.
    public func publish(_ event: String, toUser userID: String, data: String) {
        self.publish(event, to: UserID.channel(of: userID), data: data)
    }

    /// Publishes an event to a user, on all connections that are signed in as the user, with a value as its data.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - userID: The ID of the user.
    ///   - data: The data of the event, which is encoded as JSON on the calling thread. A `String` is sent unchanged.
    /// - Throws: An `EncodingError`, or the error that the `encode(to:)` of the data throws.
    public func publish(_ event: String, toUser userID: String, data: some Encodable) throws {
        self.publish(event, toUser: userID, data: try EventData.text(of: data))
    }

    /// The faults that the server injects. Changes take effect immediately.
    public var faults: PusherServerFaults {
        get { self.handler.faults }
        set { self.handler.faults = newValue }
    }

    /// The events of the server from now on.
    ///
    /// Each access returns a new sequence. It buffers up to 10,000 events with up to 8 MiB of text, and then drops the oldest. The sequence
    /// finishes when the server is released.
    public var events: EventSequence<PusherServerEvent> {
        self.driver.makeSequence(.dropOldest(10_000), byteLimit: PusherServerEvent.byteLimit, lifetime: .client) { events, output in
            output.append(contentsOf: events)
        } register: { machine, id, effects in
            effects.routes.add(id, to: &machine.eventRoute)
        }
    }

    /// The socket IDs of the established connections, sorted.
    public var socketIDs: [String] {
        self.driver.read { machine in
            machine.connections.values.compactMap { if case .established = $0.state { $0.socketID } else { nil } }.sorted()
        }
    }

    /// Returns the socket IDs of a channel's subscribers, in the order of their subscriptions.
    public func subscribers(of channel: String) -> [String] {
        self.driver.read { machine in
            (machine.channels[ByteString(channel)]?.subscribers ?? SubscriberList()).compactMap { machine.connections[$0]?.socketID }
        }
    }

    // MARK: Users

    /// Returns the socket IDs of the connections that are signed in as a user, in the order in which they signed in.
    public func socketIDs(ofUser userID: String) -> [String] {
        self.driver.read { machine in
            (machine.users[ByteString(userID)]?.connections ?? SubscriberList()).compactMap { machine.connections[$0]?.socketID }
        }
    }

    /// Closes the connections that are signed in as a user with an error and close code 4009, after which clients don't reconnect.
    public func terminateConnections(ofUser userID: String) {
        self.driver.step { machine, _, effects in machine.terminateConnections(ofUser: userID, &effects) }
    }

    // MARK: One connection

    /// Closes a connection with a close code. Does nothing if no connection has the socket ID.
    public func close(_ socketID: String, _ code: CloseCode, reason: String = "") {
        self.driver.step { machine, _, effects in machine.close(socketID, code, reason: reason, &effects) }
    }

    /// Drops a connection without a close frame. Does nothing if no connection has the socket ID.
    public func drop(_ socketID: String) {
        self.driver.step { machine, now, effects in machine.drop(socketID, now: now, &effects) }
    }

    /// Makes a connection silent, or ends its silence. Does nothing if no connection has the socket ID.
    ///
    /// The server sends nothing on a silent connection and ignores what it receives, and keeps the connection open.
    public func silence(_ socketID: String, _ isSilent: Bool = true) { self.handler.silence(socketID, isSilent) }

    /// Sends a text message to a client unchanged, whether or not it is a valid frame, and regardless of ``faults``. Does nothing if no
    /// connection has the socket ID.
    public func send(_ frame: String, to socketID: String) { self.handler.sendUnaffected(.text(frame), to: socketID) }
}

/// An event that occurred on a server, for tests and logs.
public enum PusherServerEvent: Sendable, Hashable {
    /// A connection was established.
    case connected(socketID: String)
    /// An established connection ended.
    case disconnected(socketID: String, CloseReason)
    /// The server received a text message. Messages on a silent connection aren't reported. A message longer than the app's
    /// ``PusherApp/messageLimit`` is cut, and an ellipsis added.
    case received(socketID: String, frame: String)
    /// A client signed in as a user.
    case signedIn(socketID: String, userID: String)
    /// A client subscribed to a channel. On a presence channel, the user ID is that of the member.
    case subscribed(socketID: String, channel: String, userID: String?)
    /// The server rejected a subscription with a message for the client.
    case subscriptionRejected(socketID: String, channel: String, message: String)
    /// A subscription ended, because the client unsubscribed or its connection ended.
    case unsubscribed(socketID: String, channel: String)
    /// A client subscribed to a cache channel without a cached event.
    case cacheMiss(socketID: String, channel: String)
    /// The subscribers of a channel were notified of their number; see ``PusherApp/sendsSubscriptionCounts``.
    case subscriptionCount(channel: String, count: Int)
    /// A client sent an event to the other subscribers of a channel.
    case clientEvent(socketID: String, channel: String, name: String, data: String)
    /// An event was published, over the HTTP API or by `publish(_:to:data:except:)`.
    case published(channel: String, name: String, subscribers: Int)
    /// The server sent an error to a client, or rejected a request to the HTTP API.
    ///
    /// The code is that of the error, for example 4001 for a connection with an unknown key, or the status of the HTTP response. The socket
    /// ID is `nil` for requests and for connections that the server doesn't accept. Rejected subscriptions are events of their own.
    case error(socketID: String?, code: Int?, message: String)

    /// The limit of the events that a consumer hasn't read.
    static let byteLimit = ByteLimit<PusherServerEvent>(8 << 20) { event in
        switch event {
        case .received(_, let frame): frame.utf8.count
        case .clientEvent(_, let channel, let name, let data): channel.utf8.count + name.utf8.count + data.utf8.count
        case .subscribed(_, let channel, _), .unsubscribed(_, let channel), .cacheMiss(_, let channel), .subscriptionCount(let channel, _):
            channel.utf8.count
        case .subscriptionRejected(_, let channel, let message): channel.utf8.count + message.utf8.count
        case .published(let channel, let name, _): channel.utf8.count + name.utf8.count
        case .error(_, _, let message): message.utf8.count
        case .connected, .disconnected, .signedIn: 0
        }
    }
}

/// Faults that a server injects, to test how clients handle them.
///
/// A connection that is closed sends its delayed messages first. The close code is sent regardless of faults.
public struct PusherServerFaults: Sendable, Hashable {
    /// How long the server delays each message. Messages on a connection keep their order.
    public var delay: Duration = .zero
    /// The probability that a message to a client is dropped, from 0 to 1.
    public var dropRate: Double = 0
    /// Whether the server sends nothing and ignores what it receives, while connections stay open.
    public var isSilent = false
    /// The close code with which the server rejects new connections, or `nil` to accept them.
    public var rejectionCode: CloseCode?

    /// Creates a value without faults.
    public init() {}

    init(_ faults: ConnectionFaults, rejectionCode: CloseCode?) {
        (self.delay, self.dropRate, self.isSilent) = (faults.delay, faults.dropRate, faults.isSilent)
        self.rejectionCode = rejectionCode
    }

    var connectionFaults: ConnectionFaults {
        var faults = ConnectionFaults()
        (faults.delay, faults.dropRate, faults.isSilent) = (self.delay, self.dropRate, self.isSilent)
        return faults
    }
}

extension PusherServerHooks {
    fileprivate var enabled: PusherServerMachine.Hooks {
        PusherServerMachine.Hooks(
            connections: self.authorizeConnection != nil, subscriptions: self.authorizeSubscription != nil,
            clientEvents: self.authorizeClientEvent != nil, timeout: self.timeout, pendingLimit: self.pendingLimit)
    }

    fileprivate func decision(about work: PusherServerMachine.Work) async -> PusherServerDecision {
        switch work {
        case .connection(let attempt): await self.authorizeConnection?(attempt) ?? .accept
        case .subscription(let attempt): await self.authorizeSubscription?(attempt) ?? .accept
        case .clientEvent(let attempt): await self.authorizeClientEvent?(attempt) ?? .accept
        }
    }
}
