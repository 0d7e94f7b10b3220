public import RealtimeCoding
import RealtimeSystem
import PusherWire
public import RealtimeCore

/// A client for Pusher Channels, or for any server that implements the Pusher protocol.
///
/// ```swift
/// let client = PusherClient(key: "app-key", cluster: "eu")
/// client.connect()
/// let prices = try client.subscribe("prices")
/// for await price in prices.events("price", as: Price.self) {
///     print(price.symbol, price.value)
/// }
/// ```
/// A client maintains one connection. It reconnects after a loss, with growing delays, until you call ``disconnect()``.
/// Subscriptions are remembered: channels are subscribed as soon as the client connects, and again after every reconnect.
///
/// You can call every method from any thread, actor, or task. Only `async` methods wait; all others return immediately.
/// Events and other updates arrive as `EventSequence`s, in the order in which they occurred, and are consumed in your own tasks,
/// never on the thread that reads from the connection. A sequence can be stored and iterated again after its task was cancelled; see
/// `EventSequence`. For code without tasks, ``PusherChannel/on(_:buffer:_:)`` calls closures instead.
///
/// Channels keep their client alive. When the last reference to a client and its channels is released, the connection is closed
/// and all sequences finish.
public final class PusherClient: Sendable {
    /// The version of this library, which the client sends to the server when it connects.
    public static let version = Library.version

    /// The settings that were set last, when the client was created or by the last ``update(_:)``.
    public var configuration: PusherConfiguration { self.driver.read { $0.latestSettings }.configuration }
    private let driver: SessionDriver<PusherSession>
    private let pathObservation: NetworkPathObservation?

    /// Creates a client with a configuration. The client doesn't connect until you call ``connect()`` or ``run()``.
    ///
    /// The configuration is validated when the client connects: with an invalid configuration, ``connect()`` moves the state to
    /// ``PusherConnectionState/failed(_:)`` with an error that describes the invalid value.
    ///
    /// - Parameter configuration: The settings of the client. Changing your copy later doesn't affect the client; use ``update(_:)``.
    public init(_ configuration: PusherConfiguration) {
        let driver = SessionDriver(
            PusherSession(configuration, seed: configuration.transports.seed()), in: Self.dependencies(of: configuration))
        self.driver = driver
        self.pathObservation = configuration.transports.networkPath?.observe(pacedBy: configuration.transports.time) { [weak driver] in
            driver?.step { $0.checkConnection(now: $1, &$2) }
        }
    }

    /// Creates a client for an app on a Pusher cluster, with default settings.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - cluster: The name of the cluster, such as `eu`.
    public convenience init(key: String, cluster: String) {
        self.init(PusherConfiguration(key: key, cluster: cluster))
    }

    /// Creates a client for an app on your own server, with default settings.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - host: The name or address of the server.
    ///   - port: The port, or `nil` for the default port: 443 with TLS, 80 without.
    ///   - path: The path before `/app/…`, which starts with a slash and doesn't end with one. It is empty by default.
    ///   - useTLS: Whether to use TLS.
    public convenience init(key: String, host: String, port: Int? = nil, path: String = "", useTLS: Bool = true) {
        self.init(PusherConfiguration(key: key, host: host, port: port, path: path, useTLS: useTLS))
    }

    deinit { self.driver.shutDown() }

    // MARK: Connection

    /// Connects, and keeps reconnecting after every loss until ``disconnect()``.
    ///
    /// If a retry is pending, it is made immediately. After ``disconnect()``, and after the server has rejected the client, the
    /// client starts over. While the client is connecting or connected, this method has no effect.
    public func connect() { self.driver.step { session, now, effects in session.connect(now: now, &effects) } }

    /// Disconnects and stops reconnecting.
    ///
    /// When this method returns, ``state`` is ``PusherConnectionState/disconnected(_:)`` and calls that were waiting, such as
    /// ``connected(within:)``, have been resumed. The sequences of the channels finish after their buffered events. The client
    /// remains subscribed to its channels: another ``connect()`` subscribes to them again.
    public func disconnect() { self.driver.stop() }

    /// Checks the connection now. Call it when your app returns to the foreground, or when your own monitor of the network reports a change.
    ///
    /// If the client is waiting for its next attempt to connect, or for the decision of a ``PusherRetryPolicy/custom(_:)`` policy, it connects
    /// immediately, and the earlier failures no longer count. If it is connected, it sends a ping, and treats the
    /// connection as lost if nothing arrives within ``PusherConfiguration/pongTimeout``. While the client is connecting or disconnected, this
    /// method has no effect.
    ///
    /// The method returns immediately. Don't call it repeatedly: each call skips the delay that protects the server. You needn't call it
    /// when the network has changed, if the transports of the configuration have a monitor of the network path.
    public func checkConnection() { self.driver.step { $0.checkConnection(now: $1, &$2) } }

    /// Connects, and returns when the client is disconnected by ``disconnect()``.
    ///
    /// If the task is cancelled, the client disconnects and this method returns without an error; other methods that wait don't disconnect
    /// the client when their task is cancelled. Temporary connection losses don't throw: the client reconnects.
    ///
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/rejected`` if the server rejects this client,
    ///   - ``PusherError/Code/connectionLost`` if the ``PusherConfiguration/retry`` policy ends the attempts,
    ///   - ``PusherError/Code/invalidConfiguration`` if the configuration is invalid,
    ///   - ``PusherError/Code/failed`` if a connection is impossible, for example because no TLS library is available.
    public func run() async throws(PusherError) {
        // Nothing is started for a task that is cancelled already.
        if Task.isCancelled { return self.disconnect() }
        do throws(PusherError) {
            _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                session.run(waiter, now: now, &effects)
            }
        } catch {
            // The session has disconnected the client.
            guard error.code == .cancelled else { throw error }
        }
    }

    /// Waits until the client is connected.
    ///
    /// This method doesn't connect: call ``connect()`` first.
    ///
    /// If the task is cancelled, the call throws immediately, with the code ``PusherError/Code/cancelled``. The client isn't affected: it
    /// keeps connecting, or stays connected, until you call ``disconnect()``.
    ///
    /// - Parameter limit: The maximum time to wait. The default is 30 seconds.
    /// - Returns: The socket ID of the connection.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/timedOut`` if the time limit expires, with the last failure to connect as its ``PusherError/cause``, if there
    ///     was one,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled,
    ///   - ``PusherError/Code/disconnected``, ``PusherError/Code/rejected``, ``PusherError/Code/connectionLost``,
    ///     ``PusherError/Code/failed`` or ``PusherError/Code/invalidConfiguration`` if the client stops connecting.
    @discardableResult
    public func connected(within limit: Duration = .seconds(30)) async throws(PusherError) -> String {
        guard case .connected(let socketID) = try await self.driver.awaitResult(limit: limit, { $0.awaitConnected($1, &$3) }) else {
            preconditionFailure("awaitConnected resumed without a socket ID")
        }
        return socketID
    }

    /// The current connection state.
    public var state: PusherConnectionState { self.driver.read { $0.state } }
    /// Whether the client is connected: ``state`` is ``PusherConnectionState/connected(socketID:)``.
    public var isConnected: Bool { if case .connected = self.state { true } else { false } }

    /// A sequence of the current ``state``, followed by every state that it changes to.
    ///
    /// No change is missing or repeated between the current state and the first change. The sequence continues across reconnects and
    /// finishes when the client is released. Cancelling the task of a loop ends the loop, and doesn't affect the client. Every access
    /// returns a new sequence, which starts with the state at that time; a stored sequence that is iterated again continues with the states
    /// that the earlier loop hasn't received.
    ///
    /// For changes with the state before, use ``stateChanges``. For all kinds of updates in one order, use
    /// ``updates(includingFrames:buffer:)``.
    public var states: EventSequence<PusherConnectionState> {
        self.sequence(of: .states, .standard, .client, startingWith: { $0.state }) { if case .state(let state) = $0 { state } else { nil } }
    }

    /// A sequence of the changes of ``state`` from now on, with the states before and after each change.
    ///
    /// ```swift
    /// for await change in client.stateChanges {
    ///     if case .connected = change.old { print("connection lost") }
    ///     if case .connected = change.new { print("connected") }
    /// }
    /// ```
    /// The sequence continues across reconnects and finishes when the client is released.
    public var stateChanges: EventSequence<PusherStateChange<PusherConnectionState>> {
        self.stateChanges(of: .states, .client, from: { $0.state }) { if case .state(let state) = $0 { state } else { nil } }
    }

    /// The ID that the server assigned to this connection, or `nil` while the client isn't connected.
    ///
    /// Every reconnect results in a new ID. Your application server needs it to authorize channels, and to exclude this client
    /// from the events that it publishes.
    public var socketID: String? { self.driver.read { $0.socketID } }

    /// A sequence of the delays before each retry, produced when the delay begins.
    ///
    /// The sequence continues across reconnects and finishes when the client is released.
    public var connectingIn: EventSequence<Duration> {
        self.sequence(of: .retryDelays, .standard, .client) { if case .connectingIn(let delay) = $0 { delay } else { nil } }
    }

    /// The time until the next attempt to connect; `nil` if none is pending.
    ///
    /// It is `nil` while the client is connected, while an attempt is in progress, and while a ``PusherRetryPolicy/custom(_:)`` policy
    /// decides. To be told when a delay begins, use ``connectingIn``. To end the delay, call ``checkConnection()``.
    public var reconnectDelay: Duration? {
        guard let next = self.driver.read({ $0.nextAttempt }) else { return nil }
        return max(.zero, self.driver.now.duration(to: next))
    }

    /// A sequence of errors.
    ///
    /// It contains lost connections, failed attempts to connect, failed subscriptions, errors that the server reports, invalid frames, and
    /// events that the sequences of ``events(_:as:with:buffer:)`` can't decode. Each failure is reported once. The client recovers from
    /// most of them; if it doesn't, ``state`` changes to ``PusherConnectionState/failed(_:)`` or
    /// ``PusherConnectionState/disconnected(_:)``.
    ///
    /// The sequence continues across reconnects and finishes when the client is released. For errors and all other updates in one
    /// order, use ``updates(includingFrames:buffer:)``.
    public var errors: EventSequence<PusherError> {
        self.sequence(of: .errors, .standard, .client) { if case .error(let error) = $0 { error } else { nil } }
    }

    /// A snapshot of the numbers of messages, bytes, reconnects and dropped events since the client was created.
    public var counters: Counters { self.driver.counters }

    /// A sequence of all updates from now on: events, and changes of the connection, the channels and their members.
    ///
    /// Use it to show or record updates of different kinds in the order in which they occurred, which separate sequences don't
    /// provide:
    ///
    /// ```swift
    /// for await update in client.updates() {
    ///     switch update {
    ///     case .state(let state): print(state.name)
    ///     case .subscription(let channel, let state): print(channel, state)
    ///     case .event(let event): print(event)
    ///     default: break
    ///     }
    /// }
    /// ```
    /// A final failure of the client or of a subscription is reported twice, as the new state and as an error, so that consumers of either
    /// kind alone receive it.
    ///
    /// The sequence continues across reconnects and finishes when the client is released.
    ///
    /// - Parameters:
    ///   - includingFrames: Whether to include all frames, as ``PusherUpdate/frame(_:)`` and ``PusherUpdate/sentFrame(_:)``. Received frames
    ///     are unchanged, and sent ones don't contain their secrets. For frames without secrets in both directions, use ``frames(buffer:)``.
    ///   - buffer: The policy for updates that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func updates(includingFrames: Bool = false, buffer: BufferPolicy = .standard) -> EventSequence<PusherUpdate> {
        self.sequence(of: .updates(frames: includingFrames), buffer, .client) { $0 }
    }

    /// Returns all frames from now on that the client sends and receives, without their secrets, for a log or a console for developers.
    ///
    /// Frames are in the order in which the client handles them, also across reconnects. Signatures, tokens, the user data that signatures
    /// cover, and values of the header fields of the configuration are replaced by `<redacted>`; the data of events is not. A long text is
    /// shortened. To log all frames without a loop, use the level `trace` of ``PusherConfiguration/log``.
    ///
    /// The sequence continues across reconnects and finishes when the client is released.
    ///
    /// - Parameter buffer: The policy for frames that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func frames(buffer: BufferPolicy = .standard) -> EventSequence<PusherFrameTrace> {
        self.sequence(of: .redactedFrames, buffer, .client) {
            switch $0 {
            case .frame(let text): PusherFrameTrace(.received, text)
            case .sentFrame(let text): PusherFrameTrace(.sent, text)
            default: nil
            }
        }
    }

    // MARK: Changing the settings

    /// Changes settings of the client. They apply from the next attempt to connect, including the delay before it.
    ///
    /// ```swift
    /// try client.update { $0.authorizer = .secret("another-secret") }
    /// ```
    /// A connection, and an attempt that is in progress, keep their settings, because a server authorizes a connection with them. If there is
    /// neither, the settings apply immediately, except that a delay that has begun isn't changed. To connect with the new settings now, use
    /// ``switchServer(_:)``.
    ///
    /// A client keeps its ``PusherConfiguration/transports``, which contain its source of time, and its ``PusherConfiguration/log``.
    ///
    /// - Parameter change: A closure that changes a copy of ``configuration``. It runs on the calling thread, without a lock, and again if
    ///   another call has changed the settings in the meantime.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidConfiguration`` if a value is invalid, or if the log or the transports
    ///   were set. The client then keeps its settings.
    public func update(_ change: (inout PusherConfiguration) -> Void) throws(PusherError) {
        try self.update(change, then: { _, _, _ in })
    }

    /// Changes settings of the client, such as the key and the host, and connects with them now.
    ///
    /// ```swift
    /// try client.switchServer {
    ///     $0.key = "other-key"
    ///     $0.host = "ws.example.org"
    /// }
    /// ```
    /// If the client is connected or connecting, or waits for its next attempt, its connection is closed, and it connects immediately with the
    /// new settings. Otherwise, the settings apply when you call ``connect()``.
    ///
    /// As after a reconnect, the client subscribes again to all channels and signs in again, with new authorizations; sequences and calls that
    /// wait continue, and client events that wait are sent after the subscription. Each channel that was subscribed reports a ``PusherGap``.
    /// No error is reported, apart from errors of encrypted events that wait for a key of the old app, which is no longer loaded. Failures
    /// of the old server don't count.
    ///
    /// - Parameter change: A closure that changes a copy of ``configuration``; see ``update(_:)``.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidConfiguration`` if a value is invalid, or if the log or the transports
    ///   were set. The client then keeps its settings and its connection.
    public func switchServer(_ change: (inout PusherConfiguration) -> Void) throws(PusherError) {
        try self.update(change) { $0.switchServer(now: $1, &$2) }
    }

    /// Connects to another cluster now, as pusher-js does in its method of the same name.
    ///
    /// The host, the port, the path and the use of TLS become the same as with ``PusherConfiguration/init(key:cluster:)``. All other
    /// settings stay. For what happens to the channels and the user, see ``switchServer(_:)``. Unlike pusher-js, a client that isn't
    /// connecting doesn't connect until you call ``connect()``.
    ///
    /// - Parameters:
    ///   - cluster: The name of the cluster, such as `eu`.
    ///   - key: The key of the app on that cluster, or `nil` for the same key.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidConfiguration`` if the key or the cluster is invalid. The client then
    ///   keeps its settings and its connection.
    public func switchCluster(_ cluster: String, key: String? = nil) throws(PusherError) {
        try self.switchServer { configuration in
            configuration.setCluster(cluster)
            if let key { configuration.key = key }
        }
    }

    private func update(
        _ change: (inout PusherConfiguration) -> Void,
        then input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void
    ) throws(PusherError) {
        while true {
            // The closure runs without a lock. If another thread has changed the settings meanwhile, its changes must not be lost.
            let old = self.driver.read { $0.latestSettings }
            var new = old.configuration
            change(&new)
            guard new.hasEnvironment(of: old.configuration) else {
                let message = "A client keeps its log and its transports. Create another client to change them."
                throw PusherError(.invalidConfiguration, message)
            }
            if let error = new.validationError { throw PusherError(.invalidConfiguration, "Invalid configuration: \(error)") }
            let settings = new.settings
            var isChanged = false
            self.driver.step { session, now, effects in
                isChanged = session.setSettings(settings, replacing: old, now: now, &effects)
                if isChanged { input(&session, now, &effects) }
            }
            if isChanged { return }
        }
    }

    // MARK: Channels

    /// Subscribes to a channel.
    ///
    /// This method returns immediately. The client subscribes as soon as it is connected and, for private and presence channels,
    /// authorized; use ``PusherChannel/subscribed(within:)`` to wait for that. It subscribes again after every reconnect, until you
    /// call ``unsubscribe(_:)``.
    ///
    /// Calling this method again for the same channel has no effect, except that a failed subscription is retried.
    ///
    /// - Parameter name: The name of the channel.
    /// - Returns: A handle to the channel.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name is empty, too long, or contains
    ///   an invalid character.
    @discardableResult
    public func subscribe(_ name: String) throws(PusherError) -> PusherChannel {
        try self.subscribe(name, given: nil)
    }

    /// Subscribes to a channel with an authorization that your code has obtained already.
    ///
    /// The authorization is used for the first attempt to subscribe, instead of asking the authorizer of the configuration: immediately if
    /// the client is connected, and otherwise when it connects. Later attempts, such as those after a reconnect, use the authorizer.
    ///
    /// A signature is only valid for one connection: obtain it for the current ``socketID``. If the server rejects it, the subscription fails
    /// with the code ``PusherError/Code/subscriptionRejected``; call ``subscribe(_:)`` to try again with the authorizer.
    ///
    /// If the channel is public, or the client is subscribed or subscribing to it already, the authorization isn't used.
    ///
    /// - Parameters:
    ///   - name: The name of the channel.
    ///   - authorization: The authorization for the first attempt.
    /// - Returns: A handle to the channel.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name is empty, too long, or contains
    ///   an invalid character.
    @discardableResult
    public func subscribe(_ name: String, authorization: PusherChannelAuthorization) throws(PusherError) -> PusherChannel {
        try self.subscribe(name, given: authorization)
    }

    /// Subscribes to a channel with a filter, so that the server only sends the events whose tags satisfy it.
    ///
    /// ```swift
    /// let orders = try client.subscribe("orders", filter: .equals("region", "eu"))
    /// ```
    /// The server has to support filters, as sockudo does, and ``PusherConfiguration/allowsFilters`` must be set. Publishers set the tags of an
    /// event, for example with `trigger(_:on:data:except:info:tags:)` of a ``PusherPublisher``. Client events have no tags, so that few filters
    /// let them pass. After a cache channel is subscribed, the server sends its last event even if it doesn't satisfy the filter. On an
    /// encrypted channel, tags are plain text.
    ///
    /// The filter is sent again with every subscription, such as that after a reconnect. To change it, call this method again, and to remove
    /// it, with `nil`. A subscribed channel is then ``PusherSubscriptionState/pending`` until the server has confirmed the new filter; until
    /// then, the events of the earlier one arrive, and none is missing. ``subscribe(_:)`` keeps the filter.
    ///
    /// This method returns immediately, like ``subscribe(_:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the channel. It can't be a presence channel: the server would also filter the events about its members.
    ///   - filter: The condition on the tags of events, or `nil` for all events.
    /// - Returns: A handle to the channel.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidChannelName`` if the name is empty, too long, or contains an invalid character,
    ///   - ``PusherError/Code/filterNotAllowed`` if the configuration doesn't allow filters, or the channel is a presence channel,
    ///   - ``PusherError/Code/invalidFilter`` if the filter exceeds the limits of ``PusherFilter``.
    @discardableResult
    public func subscribe(_ name: String, filter: PusherFilter?) throws(PusherError) -> PusherChannel {
        try self.validate(name)
        if let filter {
            guard self.configuration.allowsFilters else {
                let message = "\(name) can't have a filter: set `PusherConfiguration.allowsFilters`, if the server supports filters."
                throw PusherError(.filterNotAllowed, message, channel: name)
            }
            guard !ChannelName.kind(of: name).isPresence else {
                let message = "\(name) can't have a filter: the server would also filter the events about the members."
                throw PusherError(.filterNotAllowed, message, channel: name)
            }
            if let error = filter.validationError { throw PusherError(.invalidFilter, error, channel: name) }
        }
        var id = ChannelID.none
        self.driver.step { id = $0.subscribe(name, filter: filter, now: $1, &$2) }
        return PusherChannel(name, self, id: id)
    }

    private func subscribe(_ name: String, given authorization: PusherChannelAuthorization?) throws(PusherError) -> PusherChannel {
        try self.validate(name)
        var id = ChannelID.none
        self.driver.step { id = $0.subscribe(name, authorization: authorization, now: $1, &$2) }
        return PusherChannel(name, self, id: id)
    }

    private func validate(_ name: String) throws(PusherError) {
        if !name.isEmpty, !self.configuration.validatesChannelNames { return }
        if let error = ChannelName.validationError(name) {
            throw .invalidChannelName(name, error, setting: "PusherConfiguration.validatesChannelNames")
        }
    }

    /// Unsubscribes from a channel. Its sequences finish after their buffered events.
    ///
    /// If the client isn't subscribed to the channel, this method has no effect.
    ///
    /// - Parameter name: The name of the channel.
    public func unsubscribe(_ name: String) {
        self.driver.step { $0.unsubscribe(name, now: $1, &$2) }
    }

    /// Returns a handle to a channel that the client is subscribed or subscribing to.
    ///
    /// - Parameter name: The name of the channel.
    /// - Returns: The channel, or `nil` if ``subscribe(_:)`` wasn't called for it or it was unsubscribed.
    public func channel(_ name: String) -> PusherChannel? {
        self.driver.read { $0.channels.id(named: name) }.map { PusherChannel(name, self, id: $0) }
    }

    /// The names of the channels that the client is subscribed or subscribing to.
    public var channelNames: [String] { self.driver.read { $0.channels.names } }

    /// Returns the events of all channels from now on, and the server's events that don't belong to a channel.
    ///
    /// The sequence finishes when the client is disconnected, or when the connection ends in a way that the client doesn't recover
    /// from. It continues across reconnects, but doesn't contain events that were published while the client wasn't connected.
    ///
    /// To receive decoded values instead of events, use ``events(_:as:with:buffer:)``. For events together with changes of states and
    /// members, in one order, use ``updates(includingFrames:buffer:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func events(_ name: String? = nil, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.eventSequence(.events(channel: nil, name: name), buffer)
    }

    /// Returns the decoded data of the events with a name, on all channels, from now on.
    ///
    /// The data is decoded in the task that iterates over the sequence. If an event can't be decoded, the sequence skips it, reports a
    /// ``PusherError`` with the code ``PusherError/Code/decodingFailed`` to ``errors``, and continues with the next event.
    ///
    /// The sequence continues, finishes and can be iterated again as with ``events(_:buffer:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func events<Value: Decodable>(
        _ name: String, as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard
    ) -> PusherDecodedEvents<Value> {
        self.decodedEvents(.events(channel: nil, name: name), decoder, buffer)
    }

    /// The number of suspended calls of ``connected(within:)``, ``run()`` and ``PusherChannel/subscribed(within:)``, for tests.
    package var waiterCount: Int { self.driver.read { $0.waiterCount } }

    /// Whether the client waits for the answer of the ``PusherConfiguration/retryDecision``. An earlier or later answer is ignored.
    package var awaitsRetryDecision: Bool {
        self.driver.read { if case .deciding = $0.connection.state { true } else { false } }
    }

    // MARK: User

    /// The user of the connection, who can be signed in.
    public var user: PusherUser { PusherUser(self) }

    // MARK: Used by PusherUser

    func stepSession(_ input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void) { self.driver.step(input) }

    func readSession<Result>(_ body: (borrowing PusherSession) -> Result) -> Result { self.driver.read(body) }

    func awaitSignedIn(within limit: Duration) async throws(PusherError) -> PusherMember {
        guard case .signedIn(let user) = try await self.driver.awaitResult(limit: limit, { $0.awaitSignedIn($1, &$3) }) else {
            preconditionFailure("awaitSignedIn resumed without a user")
        }
        return user
    }

    // MARK: Used by PusherChannel

    func eventSequence(_ topic: PusherSession.Topic, _ buffer: BufferPolicy) -> EventSequence<PusherEvent> {
        self.driver.makeSequence(buffer, lifetime: .connection, reportsRelease: true, convert: PusherUpdate.events) {
            session, id, effects in
            session.addConsumer(id, to: topic, &effects)
        }
    }

    /// Calls a closure with the updates of a topic from now on, until the observation is cancelled.
    func observe<Element: Sendable>(
        _ topic: PusherSession.Topic, _ buffer: BufferPolicy, on executor: PusherCallbackExecutor,
        _ convert: @escaping @Sendable (PusherUpdate) -> Element?, _ callback: @escaping @Sendable (Element) -> Void
    ) -> PusherObservation {
        self.driver.observe(
            buffer, lifetime: .client, named: Self.name(ofCallbackFor: topic), on: executor, convert: eachElement(convert),
            calls: CallbackCalls(callback)
        ) { session, id, effects in
            session.addConsumer(id, to: topic, &effects)
        }
    }

    /// Returns what the log calls the callback of a topic.
    private static func name(ofCallbackFor topic: PusherSession.Topic) -> String {
        switch topic {
        case .events(let channel?, let name?): "The callback of \(name) on \(channel)"
        case .events(let channel?, nil): "The callback of the events on \(channel)"
        case .events(nil, let name?): "The callback of \(name)"
        case .events(nil, nil): "The callback of all events"
        default: "The callback of the updates"
        }
    }

    /// Calls a closure with the decoded data of the events of a topic, and reports the events that can't be decoded.
    func observe<Value: Decodable & Sendable>(
        _ topic: PusherSession.Topic, as type: Value.Type, _ decoder: JSONValueDecoder, _ buffer: BufferPolicy,
        on executor: PusherCallbackExecutor, _ callback: @escaping @Sendable (Value) -> Void
    ) -> PusherObservation {
        self.observe(topic, buffer, on: executor, PusherUpdate.event) { [weak driver = self.driver] event in
            do {
                callback(try event.decode(Value.self, with: decoder))
            } catch {
                let error = PusherError.decodingFailed(event, as: "\(Value.self)", error)
                driver?.step { session, _, effects in session.decodingFailed(error, &effects) }
            }
        }
    }

    /// Appends what the client receives to a queue: all frames as ``PusherUpdate/frame(_:)``, right before their effects, and the updates
    /// apart from events. Of the events, only those that were decrypted are included.
    ///
    /// - Parameters:
    ///   - queue: The queue, which observes this client only.
    ///   - convert: Appends the elements for a batch of updates. Called under a lock.
    /// - Returns: The registration. Releasing it cancels the queue's callback.
    package func observeReceived<Element: Sendable>(
        into queue: CallbackQueue<Element>, _ convert: @escaping EventConversion<PusherUpdate, Element>
    ) -> CallbackObservation {
        self.driver.observe(into: queue, lifetime: .client, convert: convert) { session, id, effects in
            session.addConsumer(id, to: .receivedFrames, &effects)
        }
    }

    func decodedEvents<Value: Decodable>(
        _ topic: PusherSession.Topic, _ decoder: JSONValueDecoder, _ buffer: BufferPolicy
    ) -> PusherDecodedEvents<Value> {
        PusherDecodedEvents(self.eventSequence(topic, buffer), decoder, self.driver)
    }

    func sequence<Element: Sendable>(
        of topic: PusherSession.Topic, _ buffer: BufferPolicy, _ lifetime: ConsumerLifetime,
        startingWith first: (borrowing PusherSession) -> Element? = { _ in nil }, _ convert: @escaping @Sendable (PusherUpdate) -> Element?
    ) -> EventSequence<Element> {
        self.driver.makeSequence(buffer, lifetime: lifetime, startingWith: first, convert: eachElement(convert)) { session, id, effects in
            session.addConsumer(id, to: topic, &effects)
        }
    }

    func stateChanges<State>(
        of topic: PusherSession.Topic, _ lifetime: ConsumerLifetime, from current: (borrowing PusherSession) -> State,
        _ state: @escaping @Sendable (PusherUpdate) -> State?
    ) -> EventSequence<PusherStateChange<State>> {
        self.driver.makeStateChanges(lifetime: lifetime, from: current, to: state) { session, id, effects in
            session.addConsumer(id, to: topic, &effects)
        }
    }

    func awaitSubscribed(_ name: String, within limit: Duration) async throws(PusherError) {
        _ = try await self.driver.awaitResult(limit: limit) { session, waiter, _, effects in
            session.awaitSubscribed(waiter, channel: name, &effects)
        }
    }

    /// Calls a closure with a channel's record, under the driver's lock.
    func withRecord<Result>(_ name: String, _ body: (ChannelRecord?) -> Result) -> Result {
        self.driver.read { body($0.channels[name]) }
    }

    func trigger(
        _ message: TransportMessage, _ event: String, dataSize: Int, channel: String, id: ChannelID
    ) throws(PusherError) {
        var sendsWithEffects = false
        try self.driver.send { session throws(PusherError) in
            try session.checkSize(of: event, data: dataSize, channel: channel)
            sendsWithEffects = session.sendsWithEffects
            return sendsWithEffects ? nil : try session.trigger(message, channel: channel, id: id)
        }
        guard sendsWithEffects else { return }
        // The event may have to wait, which sets a deadline, or be reported.
        var failure: PusherError?
        self.driver.step { session, now, effects in
            do throws(PusherError) {
                try session.trigger(message, channel: channel, id: id, now: now, &effects)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }
}
