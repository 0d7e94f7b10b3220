public import RealtimeCore
import RealtimeSystem
package import SignalRWire

/// A client of a hub: one connection, the calls on it, and the handlers for the calls of the server.
///
/// ```swift
/// var configuration = try HubConfiguration(url: "https://example.org/chat")
/// configuration.retry = .standard
/// let client = HubClient(configuration)
/// client.on("ReceiveMessage") { (user: String, message: String) in
///     print("\(user): \(message)")
/// }
/// try await client.start()
/// try await client.invoke("SendMessage", "anna", "Hello")
/// ```
/// All methods can be called from any thread. Those that aren't `async` return immediately. Handlers and the closures of the configuration run in
/// tasks of the client. Keep a reference to the client for as long as it is needed: when it is released, the connection is closed, calls
/// and streams fail, and no further handler is called.
public final class HubClient: Sendable {
    /// The settings of the client.
    public let configuration: HubConfiguration
    /// Encodes and decodes arguments, items and results.
    package let coder: HubValueCoder
    package let driver: SessionDriver<HubSession>
    private let handlers: HubHandlers
    private let handling: Task<Void, Never>
    private let pathObservation: NetworkPathObservation?

    /// Creates a client. It doesn't connect until you call ``start(within:)``.
    ///
    /// - Parameter configuration: The settings.
    public init(_ configuration: HubConfiguration) {
        let coder = configuration.hubProtocol.coder
        let driver = SessionDriver(HubSession(configuration, seed: configuration.transports.seed()), in: configuration.dependencies)
        let handlers = HubHandlers(coder.format, ignoresCase: configuration.ignoresCaseOfMethods)
        let limit = ByteLimit<HubCallback>(configuration.handlerBuffer.bytes) { $0.invocation.arguments.bytes.count }
        let callbacks = driver.makeSequence(.pauseReading(configuration.handlerBuffer.count), byteLimit: limit, lifetime: .client) {
            (events: ArraySlice<HubEvent>, output: inout [HubCallback]) in
            for case .invocation(let callback) in events { output.append(callback) }
        } register: { session, consumer, effects in
            session.observeInvocations(consumer, &effects)
        }
        self.configuration = configuration
        self.coder = coder
        self.driver = driver
        self.handlers = handlers
        // Handlers are asynchronous and need a task. It ends when the client is released, which ends the sequence.
        self.handling = Task {
            for await callback in callbacks {
                // Not what is left after the client was released.
                if Task.isCancelled { return }
                await handlers.handle(callback, driver)
            }
        }
        self.pathObservation = configuration.transports.networkPath?.observe { [weak driver] in
            driver?.step { $0.reconnectNow(now: $1, &$2) }
        }
    }

    deinit {
        self.driver.shutDown()
        self.handling.cancel()
    }

    // MARK: Connection

    /// Connects.
    ///
    /// If the task is cancelled or the time limit exceeded, the client stops.
    ///
    /// - Parameter limit: The maximum time to wait, for example if the first start is retried; `nil` for no limit other than
    ///   ``HubConfiguration/connectTimeout``.
    /// - Returns: The ID of the connection; `nil` without a negotiation.
    /// - Throws: ``HubError/Code/alreadyStarted`` unless the client is stopped; otherwise the reason why the attempt failed, or why the
    ///   client was stopped.
    @discardableResult
    public func start(within limit: Duration? = nil) async throws(HubError) -> String? {
        if Task.isCancelled { throw .cancelled }
        let result = try await self.driver.awaitResult(limit: limit) { session, waiter, now, effects in
            session.start(waiter, now: now, &effects)
        }
        if case .connected(let id) = result { return id }
        return nil
    }

    /// Disconnects, and doesn't reconnect.
    ///
    /// When the method returns, ``state`` is ``HubState/stopped(_:)``, and all calls and streams have failed with
    /// ``HubError/Code/stopped``. The client can be started again immediately.
    public func stop() { self.driver.stop() }

    /// Reconnects now if the client waits for its next attempt. If it is connected, checks the connection.
    public func reconnectNow() { self.driver.step { $0.reconnectNow(now: $1, &$2) } }

    /// Refreshes the authentication of the connection: the server replaces its access token with a new one, without a reconnect.
    ///
    /// Asks ``HubConfiguration/accessToken`` for a new token, and sends it to the server. Without a provider of tokens, the header fields and
    /// cookies authenticate the request. Calls at the same time share one request. The time limit is
    /// ``HubConfiguration/connectTimeout``.
    ///
    /// - Returns: The lifetime of the new authentication; `nil` if it doesn't expire.
    /// - Throws: ``HubError/Code/authenticationRefreshFailed`` if the server refuses, with the status in ``HubError/cause``, and the server's
    ///   code and text in ``HubError/serverCode`` and ``HubError/serverMessage``; the earlier authentication and the connection remain.
    ///   ``HubError/Code/tokenFailed`` if the provider of tokens failed, ``HubError/Code/notConnected``, the reason if the connection is lost
    ///   or stopped, ``HubError/Code/timedOut``, and ``HubError/Code/cancelled`` immediately when the task is cancelled.
    @discardableResult
    public func refreshAuthentication() async throws(HubError) -> Duration? {
        if Task.isCancelled { throw .cancelled }
        let result = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
            session.refreshAuthentication(waiter, now: now, &effects)
        }
        if case .refreshed(let lifetime) = result { return lifetime }
        return nil
    }

    /// The state of the client.
    public var state: HubState { self.driver.read { $0.state } }
    /// The ID of the connection, which the server knows as well; `nil` while the client isn't connected, and without a negotiation.
    public var connectionID: String? { self.driver.read { $0.connectionID } }
    /// Counts of messages and failures since the client was created.
    public var counters: Counters { self.driver.counters }

    /// A sequence of the current state and of every state that follows.
    ///
    /// A consumer that is slower than the changes receives the latest ones. The sequence finishes when the client is released.
    public var states: EventSequence<HubState> {
        self.driver.makeSequence(.standard, lifetime: .client, startingWith: { $0.state }) { events, output in
            for case .update(.state(let state), _) in events { output.append(state) }
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// A sequence of all updates from now on: states, losses, retries and errors that the client recovered from.
    ///
    /// The sequence finishes when the client is released.
    public var updates: EventSequence<HubUpdate> {
        self.driver.makeSequence(.standard, lifetime: .client, convert: Self.appendUpdates) { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// Calls a closure with all updates from now on, in order and one at a time.
    ///
    /// - Parameters:
    ///   - schedule: Runs the deliveries, for example on a queue. Called without a lock.
    ///   - callback: Called with each update.
    /// - Returns: The registration. Releasing it cancels the callback.
    package func observe(
        schedule: @escaping CallbackSchedule = { $0() }, _ callback: @escaping @Sendable (HubUpdate) -> Void
    ) -> ObservationToken {
        self.driver.observe(.standard, lifetime: .client, schedule: schedule, convert: Self.appendUpdates) { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        } callback: {
            callback($0)
        }
    }

    /// All updates from now on, with their positions, for handlers whose end is waited for.
    package var numberedUpdates: EventSequence<NumberedHubUpdate> {
        self.driver.makeSequence(.standard, lifetime: .client) { events, output in
            for case .update(let update, let number) in events { output.append(NumberedHubUpdate(number: number, update: update)) }
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// The number of the newest update.
    package var lastUpdateNumber: UInt64 { self.driver.read { $0.lastUpdate } }

    private static let appendUpdates: EventConversion<HubEvent, HubUpdate> = { events, output in
        for case .update(let update, _) in events { output.append(update) }
    }

    // MARK: Calls

    /// Calls a method and waits for its result.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - arguments: The arguments as an array, without those that are streams; see ``coder``.
    ///   - streams: The arguments that are streams.
    ///   - limit: The maximum time to wait; `nil` for the limit of the configuration.
    /// - Returns: The result; `nil` if the method has none.
    /// - Throws: ``HubError/Code/invocationFailed`` if the method failed, ``HubError/Code/notConnected``, the reason if the connection is
    ///   lost or stopped, ``HubError/Code/timedOut``, and ``HubError/Code/cancelled`` immediately when the task is cancelled. In the last
    ///   two cases, the server is told that the result isn't needed.
    package func invoke(
        _ target: String, _ arguments: HubPayload, streams: [HubUpload] = [], within limit: Duration? = nil
    ) async throws(HubError) -> HubPayload? {
        if Task.isCancelled { throw .cancelled }
        var limit = limit ?? self.configuration.callTimeLimit
        // Other callers that were resumed at the same time may have paused writing again.
        while self.driver.read({ $0.isWritingPaused }) {
            let start = self.driver.now
            try await self.driver.awaitWriting(limit: limit)
            limit = limit.map { max(.zero, $0 - start.duration(to: self.driver.now)) }
        }
        let result = try await self.driver.awaitResult(limit: limit) { session, waiter, now, effects in
            session.invoke(target, arguments, streams, waiter, now: now, &effects)
        }
        if case .result(let payload) = result { return payload }
        return nil
    }

    /// Calls a method without waiting for its end.
    ///
    /// - Throws: ``HubError/Code/notConnected``. If much output waits for a server that reads slowly, the call waits, and throws the
    ///   reason if the connection is lost or stopped, or if the task is cancelled.
    package func send(_ target: String, _ arguments: HubPayload, streams: [HubUpload] = []) async throws(HubError) {
        if streams.isEmpty {
            let invocation = HubInvocation(id: nil, target: target, arguments: arguments)
            return try await self.driver.sendWhenPossible(HubMessageWriter.message(.invocation(invocation), self.coder.format))
        }
        try await self.driver.sendWhenPossible { session, now, effects in
            session.send(target, arguments, streams, now: now, &effects)
        }
    }

    /// Calls a method that returns a stream.
    ///
    /// - Parameter decode: Decodes an item, in the consumer's task.
    /// - Returns: The stream, whose items are buffered from now on.
    /// - Throws: ``HubError/Code/notConnected``.
    package func stream<Element>(
        _ target: String, _ arguments: HubPayload, streams: [HubUpload] = [], decode: @escaping @Sendable (HubPayload) throws -> Element
    ) throws(HubError) -> HubStreamResult<Element> {
        let limit = ByteLimit<HubEvent>(self.configuration.streamBuffer.bytes) {
            if case .item(let item) = $0 { item.bytes.count } else { 0 }
        }
        var id: UInt64 = 0
        let policy = BufferPolicy.pauseReading(self.configuration.streamBuffer.count)
        let events = self.driver.makeSequence(policy, byteLimit: limit, lifetime: .client, awaitsPeer: true) {
            (events: ArraySlice<HubEvent>, output: inout [HubEvent]) in
            output.append(contentsOf: events)
        } register: { session, consumer, effects in
            id = session.addStream(target, consumer, &effects)
        }
        var error: HubError?
        self.driver.step { session, now, effects in error = session.openStream(id, target, arguments, streams, now: now, &effects) }
        if let error { throw error }
        return HubStreamResult(source: HubStreamResultSource(target, events, id, self.driver), decode: decode)
    }

    /// Decodes the result of a call. A method without a result can be called for an optional one.
    package func decode<Value: Decodable>(_ type: Value.Type, from payload: HubPayload?, of target: String) throws(HubError) -> Value {
        do {
            return try self.coder.decode(type, from: payload ?? .null(self.coder.format))
        } catch {
            throw HubError(.decodingFailed, "The result of \(target) can't be decoded as \(type): \(HubValueError.reason(error)).")
        }
    }

    // MARK: Handlers

    /// Registers a handler for a method that the server calls, with arguments and a result that aren't decoded or encoded.
    ///
    /// - Parameters:
    ///   - target: The name of the method, which is case-sensitive.
    ///   - handler: Receives the invocation, and returns the result for the server; `nil` if it has none, or if the invocation has no ID. If
    ///     it throws, and the server waits for a result, the server receives the message of a ``HubError``, and the type of any other error.
    @discardableResult
    package func on(_ target: String, _ handler: @escaping @Sendable (HubInvocation) async throws -> HubPayload?) -> HubHandlerToken {
        self.handlers.add(target, handler)
    }

    /// Removes all handlers of a method.
    public func off(_ target: String) { self.handlers.removeAll(target) }

    /// A sequence of the calls of a method by the server, from now on.
    ///
    /// ```swift
    /// for await call in client.invocations(of: "ReceiveMessage") {
    ///     let (user, message) = try call.decode(String.self, String.self)
    ///     print("\(user): \(message)")
    /// }
    /// ```
    /// Calls for which the server waits for a result need a handler; see `on(_:handler:)`. When the consumer is slower than the server,
    /// the client stops reading; see ``HubConfiguration/handlerBuffer``. The sequence finishes when the client is released.
    ///
    /// - Parameter target: The name of the method; see ``HubConfiguration/ignoresCaseOfMethods``.
    public func invocations(of target: String) -> EventSequence<HubMethodCall> {
        self.handlers.observe(target)
        let limit = ByteLimit<HubMethodCall>(self.configuration.handlerBuffer.bytes) { $0.payload.bytes.count }
        let (coder, ignoresCase) = (self.coder, self.configuration.ignoresCaseOfMethods)
        let key = HubHandlers.key(target, ignoresCase: ignoresCase)
        return self.driver.makeSequence(.pauseReading(self.configuration.handlerBuffer.count), byteLimit: limit, lifetime: .client) {
            events, output in
            for case .invocation(let callback) in events
            where HubHandlers.key(callback.invocation.target, ignoresCase: ignoresCase) == key {
                output.append(HubMethodCall(target: target, payload: callback.invocation.arguments, coder: coder))
            }
        } register: { session, consumer, effects in
            session.observeInvocations(consumer, &effects)
        }
    }

    /// A sequence of all updates, and of the calls of some methods by the server, without results, in one order.
    package func events(withCallsOf targets: [String]) -> EventSequence<HubEvent> {
        for target in targets { self.handlers.observe(target) }
        let ignoresCase = self.configuration.ignoresCaseOfMethods
        let keys = Set(targets.map { HubHandlers.key($0, ignoresCase: ignoresCase) })
        let limit = ByteLimit<HubEvent>(self.configuration.handlerBuffer.bytes) { event in
            if case .invocation(let callback) = event { callback.invocation.arguments.bytes.count } else { 0 }
        }
        return self.driver.makeSequence(.pauseReading(self.configuration.handlerBuffer.count), byteLimit: limit, lifetime: .client) {
            events, output in
            for event in events {
                if case .invocation(let callback) = event {
                    guard keys.contains(HubHandlers.key(callback.invocation.target, ignoresCase: ignoresCase)) else { continue }
                }
                output.append(event)
            }
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
            session.observeInvocations(consumer, &effects)
        }
    }
}

extension HubConfiguration {
    /// The environment of a driver: how to connect, and how to perform the session's work.
    fileprivate var dependencies: SessionDriver<HubSession>.Dependencies {
        // Only a sink that asks for it receives the messages, because they contain the data of the application.
        let webSocket: any WebSocketTransport =
            self.log.minimumLevel <= .trace
            ? TracingTransport(self.transports.webSocket, log: self.log, subsystem: "signalr") { HubMessageTrace.text($0, $1) }
            : self.transports.webSocket
        let http = self.transports.http
        let (accessToken, retry, coder) = (self.accessToken, self.retry, self.hubProtocol.coder)
        return .init(
            connect: { request, id, events in webSocket.makeConnection(request.webSocket, id: id, events: events) },
            time: self.transports.time, log: self.log, subsystem: "signalr"
        ) { work, id, driver in
            // Work is asynchronous and needs a task. The driver cancels it when its result is no longer needed.
            let task = Task {
                switch work {
                case .accessToken: driver.workFinished(id, .accessToken(await Self.token(accessToken)))
                case .negotiate(let request): driver.workFinished(id, .negotiated(await Self.response(to: request, http)))
                case .retryDelay(let context): driver.workFinished(id, .retryDelay(await Self.delay(retry, context)))
                case .upload(let stream, let upload):
                    driver.workFinished(id, .uploaded(error: await driver.perform(upload, stream, coder)))
                }
            }
            return { task.cancel() }
        }
    }

    private static func token(_ provider: AccessTokenProvider?) async -> Result<String?, HubError> {
        do {
            return .success(try await provider?())
        } catch {
            return .failure(HubError(.tokenFailed, "The provider of access tokens threw an error of the type \(type(of: error))."))
        }
    }

    private static func response(to request: HTTPRequest, _ http: any HTTPTransport) async -> Result<HTTPResponse, TransportError> {
        do throws(TransportError) {
            return .success(try await http.send(request, bodyLimit: 1 << 20))
        } catch {
            return .failure(error)
        }
    }

    private static func delay(_ policy: HubRetryPolicy, _ context: HubRetryContext) async -> Result<Duration?, HubError> {
        guard case .custom(let delay) = policy else { return .success(nil) }
        do {
            return .success(try await delay(context))
        } catch {
            let message = "The policy for reconnects threw an error of the type \(type(of: error)), so the client doesn't reconnect."
            return .failure(HubError(.handlerFailed, message))
        }
    }
}
