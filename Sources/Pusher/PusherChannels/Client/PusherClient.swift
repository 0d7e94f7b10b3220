import RealtimeJSON
import PusherWire
public import RealtimeCore

/// A client of Pusher Channels, or of any server that speaks its protocol.
///
/// ```swift
/// let client = PusherClient(key: "app-key", cluster: "eu")
/// client.connect()
/// let prices = try client.subscribe("prices")
/// for await event in prices.events("price") {
///     let price = try event.decode(Price.self)
///     print(price.value)
/// }
/// ```
/// Every method may be called from any thread, actor or task, and none of them waits unless it is `async`. What is
/// wanted is remembered: channels are subscribed as soon as there is a connection, and again after each loss.
/// When the last reference to a client and its channels is dropped, the connection is closed and every sequence ends.
public final class PusherClient: Sendable {
    /// The version that servers are told.
    public static let version = "0.1.0"

    /// What the client was made with.
    public var configuration: PusherConfiguration { self.driver.read { $0.configuration } }
    private let driver: SessionDriver<PusherSession>

    /// A client with this configuration. It does nothing until ``connect()`` or ``run()``.
    ///
    /// A configuration that cannot be used makes a client whose every attempt to connect ends as
    /// ``PusherConnectionState/failed(_:)``, with the reason.
    public init(_ configuration: PusherConfiguration) {
        self.driver = SessionDriver(
            PusherSession(configuration, seed: configuration.transports.seed()), in: configuration.dependencies)
    }

    /// A client for an application on one of the service's clusters.
    public convenience init(key: String, cluster: String) {
        self.init(PusherConfiguration(key: key, cluster: cluster))
    }

    /// A client for an application on a host of your own.
    public convenience init(key: String, host: String, port: Int? = nil, path: String = "", useTLS: Bool = true) {
        self.init(PusherConfiguration(key: key, host: host, port: port, path: path, useTLS: useTLS))
    }

    deinit { self.driver.shutDown() }

    // MARK: The connection

    /// Begins to connect, and to reconnect after every loss. While a next attempt is waited for, it is made now.
    /// After ``disconnect()`` and after a refusal it begins anew. Connecting or connected, it does nothing.
    public func connect() {
        if let problem = self.configuration.problem {
            self.driver.step { session, _, effects in session.misconfigured(problem, &effects) }
        } else {
            self.driver.start()
        }
    }

    /// Ends the connection for good, whatever it is doing: the state is ``PusherConnectionState/disconnected(_:)`` when this
    /// returns, everybody who waits has an answer, and the channels' sequences finish with what they still have.
    /// The channels stay wanted, for another ``connect()``.
    public func disconnect() { self.driver.stop() }

    /// Connects, and returns when the connection has ended for good: after ``disconnect()``. When the task is
    /// cancelled it disconnects and returns.
    ///
    /// It throws ``PusherError/Code/refused`` when the service will not have this client,
    /// ``PusherError/Code/invalidConfiguration``, and ``PusherError/Code/failed`` when no connection is possible. It does not throw for losses that can be mended.
    public func run() async throws(PusherError) {
        self.connect()
        do throws(PusherError) {
            _ = try await self.driver.awaitResult { session, waiter, _, effects in session.awaitEnd(waiter, &effects) }
        } catch {
            guard error.code == .cancelled else { throw error }
            self.disconnect()
        }
    }

    /// Waits until the client is connected, and returns the socket ID.
    ///
    /// It throws when the connection has ended for good, when the task is cancelled, and when the time is up: with the last
    /// attempt's error as the ``PusherError/cause``, if one has failed. It does not connect by itself.
    @discardableResult
    public func connected(within limit: Duration = .seconds(30)) async throws(PusherError) -> String {
        guard case .connected(let socketID) = try await self.driver.awaitResult(limit: limit, { $0.awaitConnected($1, &$3) }) else {
            preconditionFailure("asked for a connection, answered with something else")
        }
        return socketID
    }

    /// Where the connection stands.
    public var state: PusherConnectionState { self.driver.read { $0.state } }

    /// Every change of the state from now on, in order. The sequence goes on over any number of connections and
    /// finishes when the client is dropped.
    public var states: EventSequence<PusherConnectionState> {
        self.listen(.states, .standard, .client) { if case .state(let state) = $0 { state } else { nil } }
    }

    /// The name of this connection, for the application's server; `nil` while there is none.
    public var socketID: String? { self.driver.read { $0.socketID } }

    /// The wait until the next attempt, each time one begins. It finishes when the client is dropped.
    public var connectingIn: EventSequence<Duration> {
        self.listen(.connectingIn, .standard, .client) { if case .connectingIn(let delay) = $0 { delay } else { nil } }
    }

    /// What goes wrong and ends nothing by itself: attempts to connect that failed and losses, errors that the service
    /// reports, frames that could not be understood, subscriptions that failed. It finishes when the client is dropped.
    public var errors: EventSequence<PusherError> {
        self.listen(.errors, .standard, .client) { if case .error(let error) = $0 { error } else { nil } }
    }

    /// What happened so far, in numbers.
    public var counters: Counters { self.driver.counters }

    // MARK: Channels

    /// Wants a channel from now on, and returns it at once. It is subscribed as soon as the client is connected and,
    /// for private and presence channels, authorised; ``PusherChannel/subscribed(within:)`` waits for that. Wanting it
    /// twice is wanting it once; one that failed is tried again.
    ///
    /// It throws ``PusherError/Code/invalidChannelName`` when no server would accept the name.
    @discardableResult
    public func subscribe(_ name: String) throws(PusherError) -> PusherChannel {
        if let problem = ChannelName.validationError(name) { throw PusherError(.invalidChannelName, problem) }
        var place = 0
        self.driver.step { place = $0.subscribe(name, now: $1, &$2) }
        return PusherChannel(name, self, place: place)
    }

    /// Gives the channel up. Its sequences finish.
    public func unsubscribe(_ name: String) {
        self.driver.step { $0.unsubscribe(name, now: $1, &$2) }
    }

    /// A channel that is wanted; `nil` when it is not.
    public func channel(_ name: String) -> PusherChannel? {
        self.driver.read { $0.indices[name] }.map { PusherChannel(name, self, place: $0) }
    }

    /// The names of the channels that are wanted.
    public var channelNames: [String] { self.driver.read { $0.channels.compactMap { $0?.name } } }

    /// Events of all channels, and those of the service that belong to none, from now on until the connection has
    /// ended for good. With a name, those events alone.
    public func events(_ name: String? = nil, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.eventSequence(.events(channel: nil, name: name), buffer)
    }

    /// How many callers wait for an answer: for tests, which have to know that somebody does.
    package var waitingCallers: Int {
        self.driver.read { session in
            session.connectWaiters.count + session.endWaiters.count + session.channels.reduce(0) { $0 + ($1?.waiters.count ?? 0) }
        }
    }

    // MARK: For the channels

    func eventSequence(_ topic: PusherSession.Topic, _ buffer: BufferPolicy) -> EventSequence<PusherEvent> {
        self.driver.makeSequence(buffer, lifetime: .connection) { events, output in
            for event in events { if case .event(let event) = event { output.append(event) } }
        } register: { session, id, effects in
            session.listen(id, to: topic, &effects)
        }
    }

    func listen<Element: Sendable>(
        _ topic: PusherSession.Topic, _ buffer: BufferPolicy, _ lifetime: ConsumerLifetime,
        _ convert: @escaping @Sendable (PusherSession.Event) -> Element?
    ) -> EventSequence<Element> {
        self.driver.makeSequence(buffer, lifetime: lifetime) { events, output in
            for event in events { if let element = convert(event) { output.append(element) } }
        } register: { session, id, effects in
            session.listen(id, to: topic, &effects)
        }
    }

    func awaitSubscribed(_ name: String, within limit: Duration) async throws(PusherError) {
        _ = try await self.driver.awaitResult(limit: limit) { session, waiter, _, effects in
            session.awaitSubscribed(waiter, channel: name, &effects)
        }
    }

    func record<Result>(_ name: String, _ body: (PusherSession.ChannelRecord?) -> Result) -> Result {
        self.driver.read { body($0.record(name)) }
    }

    func trigger(_ message: WebSocketMessage, channel: String, hint: Int) throws(PusherError) {
        try self.driver.send { session throws(PusherError) in try session.trigger(message, channel: channel, hint: hint) }
    }

    // MARK: Authorisation

    static func perform(
        _ work: PusherSession.Work, _ finished: @escaping @Sendable (PusherSession.WorkResult) -> Void
    ) -> (@Sendable () -> Void)? {
        let (request, configuration) = (work.request, work.configuration)
        switch configuration.authorizer?.kind {
        case nil:
            finished(.failure(PusherError(.authorizationMissing, "\(request.channel) needs an authorisation.")))
            return nil
        case .secret(let secret, let userID, let userInfo):
            let key = configuration.key
            finished(.success(ChannelSignature.authorize(request, key: key, secret: secret, userID: userID, userInfo: userInfo)))
            return nil
        case .endpoint(let endpoint):
            // A task of its own, since the session has none: it is cancelled when nobody wants its answer any more.
            let task = Task {
                do throws(PusherError) {
                    finished(.success(try await endpoint.authorize(request, over: configuration.transports.http)))
                } catch {
                    finished(.failure(error))
                }
            }
            return { task.cancel() }
        case .callback(let authorize):
            // As above: the application's function needs a task to run in.
            let task = Task {
                do {
                    finished(.success(try await authorize(request)))
                } catch {
                    let what = "The application's authorisation of \(request.channel) threw an error of the type \(type(of: error))."
                    finished(.failure(PusherError(.authorizationFailed, what, cause: error)))
                }
            }
            return { task.cancel() }
        }
    }
}

extension ChannelSignature {
    static func authorize(
        _ request: PusherAuthorizationRequest, key: String, secret: String, userID: String?, userInfo: JSONValue?
    ) -> PusherChannelAuthorization {
        var channelData: String?
        if ChannelName.kind(of: request.channel) == .presence {
            var user: JSONObject = ["user_id": .string(userID ?? request.socketID)]
            if let userInfo { user["user_info"] = userInfo }
            channelData = JSONValue.object(user).description
        }
        let auth = self.token(key: key, secret: secret, socketID: request.socketID, channel: request.channel, channelData: channelData)
        return PusherChannelAuthorization(auth: auth, channelData: channelData)
    }
}
