public import RealtimeCore
import RealtimeSystem
public import SignalRWire

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
/// and streams fail, sequences finish, and no further handler is called.
public final class HubClient: Sendable {
    /// The settings that were set last, when the client was created or by the last ``update(_:)``.
    public var configuration: HubConfiguration { self.driver.read { $0.latestOptions.options } }
    /// Encodes and decodes arguments, items and results.
    package let coder: HubValueCoder
    package let driver: SessionDriver<HubSession>
    private let handlers: HubHandlerTable
    /// Calls the handlers, and those for whose result the server waits.
    private let handling: (Task<Void, Never>, Task<Void, Never>)
    private let ignoresCase: Bool
    private let handlerBuffer: HubBufferLimit
    private let pathObservation: NetworkPathObservation?

    /// Creates a client. It doesn't connect until you call ``start(within:)`` or ``run()``.
    ///
    /// The configuration is validated when the client is started: with an invalid value, ``start(within:)`` throws an error with the code
    /// ``HubError/Code/invalidConfiguration`` that describes it.
    ///
    /// - Parameter configuration: The settings. Changing your copy later doesn't affect the client; use ``update(_:)``.
    public init(_ configuration: HubConfiguration) {
        let coder = configuration.hubProtocol.coder
        let session = HubSession(configuration, seed: configuration.transports.seed())
        let driver = SessionDriver(session, in: configuration.dependencies(session.cookies))
        let handlers = HubHandlerTable(coder.format, ignoresCase: configuration.ignoresCaseOfMethods)
        let limit = ByteLimit<HubCallback>(configuration.handlerBuffer.bytes) { $0.invocation.arguments.bytes.count }
        let makeCallbacks = { (observe: (inout HubSession, ConsumerID, inout Effects<HubSession>) -> Void) in
            driver.makeSequence(
                .pauseReading(configuration.handlerBuffer.count), byteLimit: limit, lifetime: .client,
                convert: { (events: ArraySlice<HubEvent>, output: inout [HubCallback]) in
                    for case .invocation(let callback) in events { output.append(callback) }
                }, register: observe)
        }
        let callbacks = makeCallbacks { $0.observeUnawaitedInvocations($1, &$2) }
        let awaited = makeCallbacks { $0.observeAwaitedInvocations($1, &$2) }
        self.coder = coder
        self.driver = driver
        self.handlers = handlers
        self.ignoresCase = configuration.ignoresCaseOfMethods
        self.handlerBuffer = configuration.handlerBuffer
        let resultLimit = configuration.handlerBuffer.count
        let watch = driver.makeCallbackWatch(.mainActorBlocked)
        self.handling = (
            // Unstructured, since the client has no caller. It doesn't refer to the client, whose release ends its sequence and cancels it.
            Task { await handlers.handle(callbacks, driver, watch) },
            // The same, in a task of its own, so that a call with a result doesn't wait for the handler of another one.
            Task { await handlers.answer(awaited, limit: resultLimit, driver, watch) }
        )
        self.pathObservation = configuration.transports.networkPath?.observe(pacedBy: configuration.transports.time) { [weak driver] in
            driver?.step { $0.checkConnection(now: $1, &$2) }
        }
    }

    deinit {
        self.driver.shutDown()
        self.handling.0.cancel()
        self.handling.1.cancel()
    }

    // MARK: Connection

    /// Connects.
    ///
    /// If the task is cancelled or the time limit exceeded, the client stops.
    ///
    /// - Parameter limit: The maximum time to wait, for example if the first start is retried; `nil` for no limit. Each attempt has
    ///   the limit ``HubConfiguration/connectTimeout``.
    /// - Returns: The ID of the connection; `nil` without a negotiation.
    /// - Throws: ``HubError/Code/alreadyStarted`` unless the client is stopped, ``HubError/Code/invalidConfiguration`` if a value of the
    ///   configuration is invalid; ``HubError/Code/timedOut``, ``HubError/Code/cancelled`` immediately when the task is cancelled; otherwise the reason why
    ///   the attempt failed, or why the client was stopped.
    @discardableResult
    public func start(within limit: Duration? = nil) async throws(HubError) -> String? {
        if Task.isCancelled { throw .cancelled }
        let result = try await self.driver.awaitResult(limit: limit) { session, waiter, now, effects in
            session.start(waiter, now: now, &effects)
        }
        if case .connected(let id) = result { return id }
        return nil
    }

    /// Starts the client, unless it is started, and returns when it is stopped by ``stop()``.
    ///
    /// If the task is cancelled, the client stops and this method returns without an error; ``connected(within:)`` and calls don't stop the
    /// client when their task is cancelled. The loss of a connection doesn't throw if the client reconnects.
    ///
    /// - Throws: ``HubError/Code/invalidConfiguration`` if a value of the configuration is invalid; otherwise the reason why the client can't
    ///   connect, or why it doesn't reconnect. A connection that the server ended without an error, and without allowing a reconnect, isn't
    ///   an error.
    public func run() async throws(HubError) {
        // Nothing is started for a task that is cancelled already.
        if Task.isCancelled { return self.stop() }
        do throws(HubError) {
            _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                session.run(waiter, now: now, &effects)
            }
        } catch {
            // The session has stopped the client.
            guard error.code == .cancelled else { throw error }
        }
    }

    /// Waits until the client is connected, for example again after a loss.
    ///
    /// This method doesn't connect: call ``start(within:)`` or ``run()``. If the task is cancelled, the call throws immediately, with the code
    /// ``HubError/Code/cancelled``, and the client isn't affected.
    ///
    /// - Parameter limit: The maximum time to wait. The default is 30 seconds.
    /// - Returns: The ID of the connection; `nil` without a negotiation.
    /// - Throws: ``HubError/Code/timedOut``, with the last failure to connect as its ``HubError/cause``, if there was one, if the time limit
    ///   expires, ``HubError/Code/cancelled``, ``HubError/Code/stopped``, and the reason if the client stops by itself.
    @discardableResult
    public func connected(within limit: Duration = .seconds(30)) async throws(HubError) -> String? {
        let result = try await self.driver.awaitResult(limit: limit) { session, waiter, _, effects in
            session.awaitConnected(waiter, &effects)
        }
        if case .connected(let id) = result { return id }
        return nil
    }

    /// Disconnects, and doesn't reconnect.
    ///
    /// When the method returns, ``state`` is ``HubState/stopped(_:)``, and all calls and streams have failed with
    /// ``HubError/Code/stopped``. No further handler is called for a call that has arrived before; one that runs already finishes, and its
    /// result isn't sent. The client can be started again immediately: the old connection then closes beside the new one.
    public func stop() { self.driver.stop() }

    /// Checks the connection now. Call it when your app returns to the foreground, or when your own monitor of the network reports a change.
    ///
    /// If the client is waiting for its next attempt to connect, or for the decision of a ``HubRetryPolicy/custom(_:)`` policy, it connects
    /// immediately. If it is connected, it sends a ping, and treats the connection as lost if nothing arrives within 10 seconds, or within
    /// ``HubConfiguration/serverTimeout`` if that is shorter. While the client is connecting or stopped, this method has no effect.
    ///
    /// The method returns immediately. Don't call it repeatedly: each call skips the delay that protects the server. You needn't call it
    /// when the network has changed, if the transports of the configuration have a monitor of the network path.
    public func checkConnection() { self.driver.step { $0.checkConnection(now: $1, &$2) } }

    /// Refreshes the authentication of the connection: the server replaces its access token with a new one, without a reconnect.
    ///
    /// Asks ``HubConfiguration/accessToken`` for a new token, and sends it to the server. Without a provider of tokens, the header fields and
    /// cookies authenticate the request. Calls at the same time share one request. The time limit is
    /// ``HubConfiguration/connectTimeout``.
    ///
    /// - Returns: The lifetime of the new authentication; `nil` if it doesn't expire.
    /// - Throws: ``HubError/Code/authenticationRefreshFailed`` if the server refuses, with the status in ``HubError/status``, and the server's
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

    /// The current state of the client.
    public var state: HubState { self.driver.read { $0.state } }
    /// Whether the client is connected: ``state`` is ``HubState/connected(connectionID:)``.
    public var isConnected: Bool { if case .connected = self.state { true } else { false } }
    /// The ID of the connection, which the server knows as well; `nil` while the client isn't connected, and without a negotiation.
    public var connectionID: String? { self.driver.read { $0.connectionID } }
    /// Whether ``connectionID`` must not be shown, because it admits its holder to the connection, as in version 0 of the negotiation.
    package var isConnectionIDSecret: Bool { self.driver.read { $0.isConnectionIDSecret } }
    /// The transport of the connection; `nil` while the client isn't connected.
    public var transport: HubTransport? { self.driver.read { $0.transport } }
    /// A snapshot of the numbers of messages, bytes, reconnects and failures since the client was created.
    public var counters: Counters { self.driver.counters }

    /// The time until the next attempt to connect; `nil` if none is pending.
    ///
    /// It is `nil` while the client is connected, while an attempt is in progress, and while a ``HubRetryPolicy/custom(_:)`` policy decides.
    /// To be told when a delay begins, use ``connectingIn``. To end the delay, call ``checkConnection()``.
    public var reconnectDelay: Duration? {
        guard let next = self.driver.read({ $0.nextAttempt }) else { return nil }
        return max(.zero, self.driver.now.duration(to: next))
    }

    // MARK: Observing

    /// A sequence of the current ``state``, followed by every state that it changes to.
    ///
    /// No change is missing or repeated between the current state and the first change. The sequence continues across reconnects and after
    /// ``stop()``, and finishes when the client is released. A consumer that is slower than the changes receives the latest ones. For changes
    /// with the state before, use ``stateChanges``.
    public var states: EventSequence<HubState> { self.sequence(startingWith: { $0.state }) { $0.state } }

    /// A sequence of the changes of ``state`` from now on, with the states before and after each change.
    ///
    /// The sequence continues and finishes like ``states``.
    public var stateChanges: EventSequence<HubStateChange> {
        self.driver.makeStateChanges(lifetime: .client, from: { $0.state }, to: { $0.state }) { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// A sequence of the delays before each retry, produced when the delay begins.
    ///
    /// The sequence continues and finishes like ``states``.
    public var connectingIn: EventSequence<Duration> {
        self.sequence { if case .connectingIn(let delay) = $0.update { delay } else { nil } }
    }

    /// A sequence of errors.
    ///
    /// It contains lost connections, failed attempts to connect, failures of handlers, invalid messages, and failed refreshes of the
    /// authentication. Each failure is reported once. The client recovers from most of them; if it doesn't, ``state`` changes to
    /// ``HubState/stopped(_:)``. Errors of calls and streams are thrown to their callers, and aren't part of it.
    ///
    /// The sequence continues and finishes like ``states``.
    public var errors: EventSequence<HubError> { self.sequence { $0.error } }

    /// A sequence of all updates from now on, in one order: states, losses, retries, reconnects, ends, refreshes of the authentication,
    /// and errors that the client recovered from.
    ///
    /// The sequence continues across reconnects and after ``stop()``, and finishes when the client is released.
    ///
    /// - Parameter buffer: The policy for updates that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func updates(buffer: BufferPolicy = .standard) -> EventSequence<HubUpdate> { self.sequence(buffer) { $0.update } }

    /// Returns all messages from now on that the client sends and receives, without their secrets, for a log or a console for developers.
    ///
    /// Messages are in the order in which the client handles them, also across reconnects. MessagePack is shown as JSON. Tokens, cookies and
    /// values of the header fields of the configuration are replaced by `…`; the arguments and results of calls are not. A long text is
    /// shortened. To log all messages without a loop, use the level `trace` of ``HubConfiguration/log``.
    ///
    /// The sequence continues across reconnects and finishes when the client is released.
    ///
    /// - Parameter buffer: The policy for messages that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func frames(buffer: BufferPolicy = .standard) -> EventSequence<HubFrameTrace> {
        let convert = eachElement { (event: HubEvent) in if case .frame(let frame) = event { frame } else { nil } }
        return self.driver.makeSequence(buffer, lifetime: .client, convert: convert) { session, consumer, effects in
            session.observeFrames(consumer, &effects)
        }
    }

    /// Calls a closure on the main actor with all updates from now on.
    ///
    /// The callbacks run in the order of the updates and one at a time. They continue across reconnects, and after ``stop()`` and another
    /// ``start(within:)``.
    ///
    /// - Parameters:
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - callback: Called with each update. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onUpdate(
        buffer: BufferPolicy = .standard, _ callback: @escaping @MainActor @Sendable (HubUpdate) -> Void
    ) -> HubObservation {
        self.onUpdate(on: .main, buffer: buffer, CallbackExecutor.onMain(callback))
    }

    /// Calls a closure on an executor with all updates from now on.
    ///
    /// The callbacks run in the order of the updates and one at a time. They continue across reconnects, and after ``stop()`` and another
    /// ``start(within:)``.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - callback: Called with each update. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onUpdate(
        on executor: HubCallbackExecutor, buffer: BufferPolicy = .standard, _ callback: @escaping @Sendable (HubUpdate) -> Void
    ) -> HubObservation {
        let convert = eachElement { (event: HubEvent) in event.update }
        return self.driver.observe(
            buffer, lifetime: .client, named: "The callback of the updates", on: executor, convert: convert,
            calls: CallbackCalls(callback)
        ) { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    private func sequence<Element: Sendable>(
        _ buffer: BufferPolicy = .standard, startingWith first: (borrowing HubSession) -> Element? = { _ in nil },
        _ element: @escaping @Sendable (HubEvent) -> Element?
    ) -> EventSequence<Element> {
        self.driver.makeSequence(buffer, lifetime: .client, startingWith: first, convert: eachElement(element)) {
            session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// The updates of the life of a connection from now on, with their positions, for handlers whose end is waited for.
    package var numberedUpdates: EventSequence<NumberedHubUpdate> {
        self.driver.makeSequence(.standard, lifetime: .client) { events, output in
            // Selected before the buffer, in which they can't be displaced by the others, of which there may be many.
            for case .update(let update, let number) in events where update.concernsLife {
                output.append(NumberedHubUpdate(number: number, update: update))
            }
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// The number of the newest of these updates.
    package var lastUpdateNumber: UInt64 { self.driver.read { $0.lastUpdateOfLife } }
    /// Whether there has been an update, because the client was started.
    package var hasUpdates: Bool { self.driver.read { $0.lastUpdate > 0 } }

    // MARK: Changing the settings

    /// Changes settings of the client. They apply from the next attempt to connect, including the delay before it.
    ///
    /// ```swift
    /// try client.update { $0.retry = .standard }
    /// ```
    /// A connection, and an attempt that is in progress, keep their settings. If there is neither, the settings apply immediately, except that
    /// a delay that has begun isn't changed. To send another access token on a connection, call ``refreshAuthentication()``.
    ///
    /// A client keeps its ``HubConfiguration/hubProtocol``, its ``HubConfiguration/ignoresCaseOfMethods``, its
    /// ``HubConfiguration/handlerBuffer``, its ``HubConfiguration/transports`` and its ``HubConfiguration/log``.
    ///
    /// - Parameter change: A closure that changes a copy of ``configuration``. It runs on the calling thread, without a lock, and again if
    ///   another call has changed the settings in the meantime.
    /// - Throws: ``HubError/Code/invalidConfiguration`` if a value is invalid, or if a setting was set that a client keeps. The client then
    ///   keeps its settings.
    public func update(_ change: (inout HubConfiguration) -> Void) throws(HubError) {
        try self.driver.updateOptions { old throws(HubError) in
            var new = old
            change(&new)
            guard new.keeps(old) else {
                let message =
                    "A client keeps its protocol, its buffer for handlers, the case of methods, its log and its transports. Create another "
                    + "client to change them."
                throw HubError(.invalidConfiguration, message)
            }
            if let error = new.validationError { throw HubError(.invalidConfiguration, "Invalid configuration: \(error)") }
            return new
        }
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
        let call = try await self.reserveCall(of: target, within: limit)
        if streams.isEmpty {
            let invocation = HubInvocation(id: "\(call.number)", target: target, arguments: arguments)
            return try await self.invoke(call, target, HubMessageWriter.message(.invocation(invocation), self.coder.format))
        }
        return try await self.result(of: call) { session, waiter, now, effects in
            session.invoke(target, arguments, streams, id: call.number, waiter, now: now, &effects)
        }
    }

    /// Calls a method with a message that is encoded already, and waits for its result.
    ///
    /// - Parameters:
    ///   - call: The number of the call and its limit, from ``reserveCall(of:within:)``.
    ///   - target: The name of the method.
    ///   - message: The invocation with this number.
    package func invoke(_ call: ReservedCall, _ target: String, _ message: TransportMessage) async throws(HubError) -> HubPayload? {
        try await self.result(of: call) { session, waiter, now, effects in
            session.invoke(call.number, target, message, waiter, now: now, &effects)
        }
    }

    /// A call that has a number and wasn't sent.
    package struct ReservedCall: Sendable {
        package let number: UInt64
        /// The maximum time for the call, and its part that hasn't passed.
        fileprivate let limit: Duration?, rest: Duration?
    }

    /// Reserves the number of a new call as soon as the server has read enough of what was sent before.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - limit: The maximum time for the call; `nil` for ``HubConfiguration/callTimeLimit``.
    package func reserveCall(of target: String, within limit: Duration?) async throws(HubError) -> ReservedCall {
        if Task.isCancelled { throw .cancelled }
        if target.isEmpty { throw .emptyName }
        let limit = limit ?? self.driver.read { $0.options.callTimeLimit }
        var number: UInt64 = 0
        let rest = try await self.driver.sendWhenWritable(limit: limit) { () throws(HubError) in
            var isReserved = false
            try self.driver.send { session throws(HubError) in
                isReserved = session.reserveCall(&number)
                return nil
            }
            return isReserved
        } wait: { session, waiter, effects in
            session.awaitWriting(waiter, &effects)
        }
        return ReservedCall(number: number, limit: limit, rest: rest)
    }

    private func result(
        of call: ReservedCall, _ request: (inout HubSession, WaiterID, Instant, inout Effects<HubSession>) -> Void
    ) async throws(HubError) -> HubPayload? {
        let result = try await self.driver.awaitResult(limit: call.rest, of: call.limit, request)
        guard case .result(let payload) = result else { return nil }
        return payload
    }

    /// Calls a method without waiting for its end. Over HTTP, waits until the server has taken the call.
    ///
    /// - Throws: ``HubError/Code/notConnected``. If much output waits for a server that reads slowly, the call waits. While it waits, it throws the
    ///   reason if the connection is lost or stopped, or if the task is cancelled.
    package func send(_ target: String, _ arguments: HubPayload, streams: [HubUpload] = []) async throws(HubError) {
        if target.isEmpty { throw .emptyName }
        if streams.isEmpty {
            let invocation = HubInvocation(id: nil, target: target, arguments: arguments)
            return try await self.driver.sendWhenPossible(HubMessageWriter.message(.invocation(invocation), self.coder.format))
        }
        try await self.driver.sendAwaitingAnswer { session, now, effects throws(HubError) in
            try session.send(target, arguments, streams, now: now, &effects)
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
        if Task.isCancelled { throw .cancelled }
        if target.isEmpty { throw .emptyName }
        let buffer = self.driver.read { $0.options.streamBuffer }
        let limit = ByteLimit<HubEvent>(buffer.bytes) {
            if case .item(let item) = $0 { item.bytes.count } else { 0 }
        }
        var id: UInt64 = 0
        let policy = BufferPolicy.pauseReading(buffer.count)
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
            let message = "The result of \(target) can't be decoded as \(type): \(HubValueError.reason(error))."
            throw HubError(.decodingFailed, message, cause: HubValueError.cause(of: error))
        }
    }

    // MARK: Handlers

    /// Registers a handler for a method that the server calls, with arguments and a result that aren't decoded or encoded.
    ///
    /// - Parameters:
    ///   - target: The name of the method, case-sensitive unless ``HubConfiguration/ignoresCaseOfMethods`` is set.
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
        let limit = ByteLimit<HubMethodCall>(self.handlerBuffer.bytes) { $0.payload.bytes.count }
        let (coder, ignoresCase) = (self.coder, self.ignoresCase)
        let key = HubHandlerTable.key(target, ignoresCase: ignoresCase)
        return self.driver.makeSequence(
            .pauseReading(self.handlerBuffer.count), byteLimit: limit, lifetime: .client, reportsRelease: true
        ) { events, output in
            for case .invocation(let callback) in events
            where HubHandlerTable.key(callback.invocation.target, ignoresCase: ignoresCase) == key {
                output.append(HubMethodCall(target: target, payload: callback.invocation.arguments, coder: coder))
            }
        } register: { session, consumer, effects in
            session.observeInvocations(consumer, &effects)
        }
    }

    /// A sequence of all updates, and of the calls of some methods by the server, without results, in one order.
    ///
    /// - Parameters:
    ///   - targets: The names of the methods.
    ///   - includesOthers: Whether the calls of other methods are elements as well. These still count as unhandled.
    package func events(withCallsOf targets: [String], includesOthers: Bool = false) -> EventSequence<HubEvent> {
        for target in targets { self.handlers.observe(target) }
        let ignoresCase = self.ignoresCase
        let keys = Set(targets.map { HubHandlerTable.key($0, ignoresCase: ignoresCase) })
        let limit = ByteLimit<HubEvent>(self.handlerBuffer.bytes) { event in
            if case .invocation(let callback) = event { callback.invocation.arguments.bytes.count } else { 0 }
        }
        return self.driver.makeSequence(.pauseReading(self.handlerBuffer.count), byteLimit: limit, lifetime: .client) {
            events, output in
            for event in events {
                if case .invocation(let callback) = event, !includesOthers {
                    guard keys.contains(HubHandlerTable.key(callback.invocation.target, ignoresCase: ignoresCase)) else { continue }
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
    fileprivate func dependencies(_ cookies: RedirectingHTTP.Cookies) -> SessionDriver<HubSession>.Dependencies {
        let (transports, http, coder, log) = (self.transports, self.transports.http, self.hubProtocol.coder, self.log)
        let (source, subsystem, trace) = (self.accessTokenSource, "signalr", self.messagesOverHTTPTrace)
        return .init(
            connect: { request, id, events, driver in
                switch request {
                case .webSocket(let request): return transports.webSocket.makeConnection(request, id: id, events: events)
                case .http(let rules, let headers, let asksForToken, let sendsAfterRedirect):
                    let headers = HubRequestHeaders(headers, of: id, driver)
                    var environment = HTTPMessageConnection.Environment(
                        transports, cookies: cookies, headers: { headers.headers(refused: $0, $1) }, refreshesHeaders: asksForToken,
                        log: log,
                        subsystem: subsystem)
                    environment.sendsHeadersAfterRedirect = sendsAfterRedirect
                    guard let trace else { return HTTPMessageConnection(rules, in: environment, id: id, events: events) }
                    let connection = HTTPMessageConnection(rules, in: environment, id: id, events: TracedEvents(events, trace))
                    return TracedConnection(connection, id, trace)
                }
            },
            time: self.transports.time, log: self.log, describe: { _ in HubMessageTrace.text }, subsystem: subsystem
        ) { work, id, driver in
            switch work {
            case .accessToken(let provider): driver.perform(id) { .accessToken(await Self.token(provider, source)) }
            case .negotiate(let request):
                driver.perform(id, as: HubSession.WorkResult.negotiated) { () async throws(TransportError) in
                    try await http.send(request, bodyLimit: 1 << 20)
                }
            case .retryDelay(let policy, let context): driver.perform(id) { .retryDelay(await Self.delay(policy, context)) }
            case .upload(let stream, let upload):
                driver.perform(id) { .uploaded(error: await driver.perform(upload, stream, coder)) }
            }
        }
    }

    private static func token(_ provider: AccessTokenProvider?, _ source: HubAccessTokenSource) async -> Result<String?, HubError> {
        await Result(calling: { () async throws in try await provider?() }) { error in
            HubError(.tokenFailed, source.message(about: error), cause: error)
        }
    }

    private static func delay(_ policy: HubRetryPolicy, _ context: HubRetryContext) async -> Result<Duration?, HubError> {
        guard case .custom(let delay) = policy else { return .success(nil) }
        return await Result(calling: { () async throws in try await delay(context) }) { error in
            let message = "The policy for reconnects threw an error of the type \(type(of: error)), so the client doesn't reconnect."
            return HubError(.handlerFailed, message, cause: error)
        }
    }
}
