public import RealtimeJSON
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
/// `EventSequence`.
///
/// Channels keep their client alive. When the last reference to a client and its channels is released, the connection is closed
/// and all sequences finish.
public final class PusherClient: Sendable {
    /// The version of this library, which the client sends to the server when it connects.
    public static let version = "0.1.0"

    /// The configuration that the client was created with.
    public var configuration: PusherConfiguration { self.driver.read { $0.configuration } }
    private let driver: SessionDriver<PusherSession>
    private let pathObservation: NetworkPathObservation?

    /// Creates a client with a configuration. The client doesn't connect until you call ``connect()`` or ``run()``.
    ///
    /// The configuration is validated when the client connects: with an invalid configuration, ``connect()`` moves the state to
    /// ``PusherConnectionState/failed(_:)`` with an error that describes the invalid value.
    ///
    /// - Parameter configuration: The settings of the client. Changing your copy later doesn't affect the client.
    public init(_ configuration: PusherConfiguration) {
        let driver = SessionDriver(
            PusherSession(configuration, seed: configuration.transports.seed()), in: configuration.dependencies)
        self.driver = driver
        self.pathObservation = configuration.transports.networkPath?.observe { [weak driver] in
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
    public func connect() {
        if let error = self.configuration.validationError {
            self.driver.step { session, _, effects in session.failConfiguration(error, &effects) }
        } else {
            self.driver.start()
        }
    }

    /// Disconnects and stops reconnecting.
    ///
    /// When this method returns, ``state`` is ``PusherConnectionState/disconnected(_:)`` and calls that were waiting, such as
    /// ``connected(within:)``, have been resumed. The sequences of the channels finish after their buffered events. The client
    /// remains subscribed to its channels: another ``connect()`` subscribes to them again.
    public func disconnect() { self.driver.stop() }

    /// Checks the connection now. Call it when your app returns to the foreground.
    ///
    /// If the client is waiting for its next attempt to connect, it connects immediately. If it is connected, it sends a ping, and treats the
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
    ///   - ``PusherError/Code/invalidConfiguration`` if the configuration is invalid,
    ///   - ``PusherError/Code/failed`` if a connection is impossible, for example because no TLS library is available.
    public func run() async throws(PusherError) {
        self.connect()
        do throws(PusherError) {
            _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, _, effects in session.awaitEnd(waiter, &effects) }
        } catch {
            guard error.code == .cancelled else { throw error }
            self.disconnect()
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
    ///   - ``PusherError/Code/disconnected``, ``PusherError/Code/rejected``, ``PusherError/Code/failed`` or
    ///     ``PusherError/Code/invalidConfiguration`` if the client stops connecting.
    @discardableResult
    public func connected(within limit: Duration = .seconds(30)) async throws(PusherError) -> String {
        guard case .connected(let socketID) = try await self.driver.awaitResult(limit: limit, { $0.awaitConnected($1, &$3) }) else {
            preconditionFailure("awaitConnected resumed without a socket ID")
        }
        return socketID
    }

    /// The current connection state.
    public var state: PusherConnectionState { self.driver.read { $0.state } }

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
    /// The sequence continues across reconnects and finishes when the client is released. You can iterate a stored sequence again, for
    /// example after the task of a loop was cancelled: the new loop takes over.
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
    /// The sequence continues across reconnects and finishes when the client is released. You can iterate a stored sequence again, for
    /// example after the task of a loop was cancelled: the new loop takes over.
    public var connectingIn: EventSequence<Duration> {
        self.sequence(of: .retryDelays, .standard, .client) { if case .connectingIn(let delay) = $0 { delay } else { nil } }
    }

    /// A sequence of errors.
    ///
    /// It contains lost connections, failed attempts to connect, failed subscriptions, errors that the server reports, invalid frames, and
    /// events that the sequences of ``events(_:as:with:buffer:)`` can't decode. Each failure is reported once. The client recovers from
    /// most of them; if it doesn't, ``state`` changes to ``PusherConnectionState/failed(_:)`` or
    /// ``PusherConnectionState/disconnected(_:)``.
    ///
    /// The sequence continues across reconnects and finishes when the client is released. You can iterate a stored sequence again, for
    /// example after the task of a loop was cancelled: the new loop takes over. For errors and all other updates in one order, use
    /// ``updates(includingFrames:buffer:)``.
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
    /// The sequence continues across reconnects and finishes when the client is released. You can iterate a stored sequence again, for
    /// example after the task of a loop was cancelled: the new loop takes over.
    ///
    /// - Parameters:
    ///   - includingFrames: Whether to include all received frames.
    ///   - buffer: The policy for updates that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func updates(includingFrames: Bool = false, buffer: BufferPolicy = .standard) -> EventSequence<PusherUpdate> {
        self.sequence(of: .updates(frames: includingFrames), buffer, .client) { $0 }
    }

    /// Calls a closure with all updates from now on, in order and one at a time.
    ///
    /// - Parameters:
    ///   - includingFrames: Whether to include all received frames.
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - schedule: Runs the deliveries, for example on the main queue or immediately. Called without a lock.
    ///   - callback: Called with each update. It may call the client.
    /// - Returns: The registration. Releasing it cancels the callback.
    package func observe(
        includingFrames: Bool = false, buffer: BufferPolicy = .standard, schedule: @escaping CallbackSchedule,
        _ callback: @escaping @Sendable (PusherUpdate) -> Void
    ) -> ObservationToken {
        self.driver.observe(buffer, lifetime: .client, schedule: schedule) { updates, output in
            output.append(contentsOf: updates)
        } register: { session, id, effects in
            session.addConsumer(id, to: .updates(frames: includingFrames), &effects)
        } callback: {
            callback($0)
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
        if let error = ChannelName.validationError(name) { throw PusherError(.invalidChannelName, error, channel: name) }
        var id = ChannelID.none
        self.driver.step { id = $0.subscribe(name, now: $1, &$2) }
        return PusherChannel(name, self, id: id)
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
    /// You can iterate a stored sequence again, for example after the task of a loop was cancelled: the new loop takes over.
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
    /// The sequence continues, finishes and can be iterated again like that of ``events(_:buffer:)``.
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

    // MARK: Used by PusherChannel

    func eventSequence(_ topic: PusherSession.Topic, _ buffer: BufferPolicy) -> EventSequence<PusherEvent> {
        self.driver.makeSequence(buffer, lifetime: .connection) { updates, output in
            for update in updates { if case .event(let event) = update { output.append(event) } }
        } register: { session, id, effects in
            session.addConsumer(id, to: topic, &effects)
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
        self.driver.makeSequence(buffer, lifetime: lifetime, startingWith: first) { updates, output in
            for update in updates { if let element = convert(update) { output.append(element) } }
        } register: { session, id, effects in
            session.addConsumer(id, to: topic, &effects)
        }
    }

    func stateChanges<State>(
        of topic: PusherSession.Topic, _ lifetime: ConsumerLifetime, from current: (borrowing PusherSession) -> State,
        _ state: @escaping @Sendable (PusherUpdate) -> State?
    ) -> EventSequence<PusherStateChange<State>> {
        // The state that the consumer knows. Every access is under the driver's lock, and this one makes it Sendable.
        let latest = Lock<State?>(nil)
        return self.driver.makeSequence(.standard, lifetime: lifetime) { updates, output in
            for update in updates {
                guard let new = state(update) else { continue }
                let old = latest.withLock { latest in
                    defer { latest = new }
                    return latest
                }
                if let old { output.append(PusherStateChange(old: old, new: new)) }
            }
        } register: { session, id, effects in
            let state = current(session)
            latest.withLock { $0 = state }
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

    func trigger(_ message: WebSocketMessage, channel: String, id: ChannelID) throws(PusherError) {
        try self.driver.send { session throws(PusherError) in try session.trigger(message, channel: channel, id: id) }
    }

    // MARK: Authorization

    /// Authorizes a channel, as a command of the session.
    ///
    /// - Returns: A closure that cancels the authorization, or `nil` if it has finished already.
    static func perform(
        _ work: PusherSession.Work, _ id: WorkID, for driver: SessionDriver<PusherSession>
    ) -> (@Sendable () -> Void)? {
        let (request, configuration) = (work.request, work.configuration)
        @Sendable func finished(_ result: PusherSession.WorkResult) { driver.workFinished(id, result) }
        switch work.authorizer.kind {
        case .secret(let secret, let userID, let userInfo):
            let key = configuration.key
            let user = PresenceUser(id: userID ?? request.socketID, info: userInfo)
            finished(.success(PusherChannelAuthorization(signing: request, user: user, key: key, secret: secret)))
            return nil
        case .endpoint(let endpoint):
            // An unstructured task, since the driver has none. The session cancels it when its result is no longer needed.
            let task = Task {
                do throws(PusherError) {
                    finished(.success(try await endpoint.authorize(request, over: configuration.transports.http)))
                } catch {
                    finished(.failure(error))
                }
            }
            return { task.cancel() }
        case .callback(let authorize):
            // An unstructured task for the same reason.
            let task = Task {
                do {
                    finished(.success(try await authorize(request)))
                } catch {
                    let reason = "the callback threw an error of type \(type(of: error))."
                    finished(.failure(.authorizationFailed(request.channel, "", reason, cause: error)))
                }
            }
            return { task.cancel() }
        }
    }
}

extension PusherChannelAuthorization {
    /// Signs a subscription the way an application server does.
    init(signing request: PusherAuthorizationRequest, user: PresenceUser, key: String, secret: String) {
        let signed = ChannelSignature.authorize(
            socketID: request.socketID, channel: request.channel, user: user, key: key, secret: secret)
        self.init(auth: signed.auth, channelData: signed.channelData)
    }
}
