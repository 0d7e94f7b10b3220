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
    private let server: EmbeddedServer<PusherServerMachine>
    private var driver: SessionDriver<PusherServerMachine> { self.server.connections.driver }
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
        let connections = ServedConnections(machine, in: dependencies, seed: seed)
        self.webhooks = webhooks.map {
            WebhookSender($0, app: app, http: $0.http ?? http ?? Transports.standard.http, of: connections.driver, time: time, log: log)
        }
        let handler = PusherServerHandler(app: app, connections: connections, unixTime: unixTime)
        self.server = EmbeddedServer(connections, handler: handler)
    }

    deinit { self.server.shutDown() }

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
        try await self.server.start(on: listener)
    }

    /// Stops the server: asks every client to reconnect soon (close code 4200) and stops the listener.
    ///
    /// Returns when all connections have ended. If the server is being started or stopped, the method waits until it has stopped; if it isn't
    /// started, the method returns immediately.
    public func stop() async { await self.server.stop() }

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
    public var listenerHandler: any ListenerHandler { self.server.handler }

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
        get {
            let connections = self.server.connections
            return PusherServerFaults(connections.faults, rejectionCode: connections.driver.read { $0.rejectionCode })
        }
        set { self.server.connections.setFaults(newValue.connections) { $0.rejectionCode = newValue.rejectionCode } }
    }

    /// The events of the server from now on.
    ///
    /// Each access returns a new sequence. It buffers up to 10,000 events with up to 8 MiB of text, and then drops the oldest. The sequence
    /// finishes when the server is released.
    public var events: EventSequence<PusherServerEvent> { self.server.events(PusherServerEvent.byteLimit) }

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
    public func drop(_ socketID: String) { self.server.connections.drop(socketID) }

    /// Makes a connection silent, or ends its silence. Does nothing if no connection has the socket ID.
    ///
    /// The server sends nothing on a silent connection and ignores what it receives, and keeps the connection open.
    public func silence(_ socketID: String, _ isSilent: Bool = true) { self.server.connections.silence(socketID, isSilent) }

    /// Sends a text message to a client unchanged, whether or not it is a valid frame, and regardless of ``faults``. Does nothing if no
    /// connection has the socket ID.
    public func send(_ frame: String, to socketID: String) { self.server.connections.sendUnaffected(.text(frame), to: socketID) }
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
