import PrimusWire
public import RealtimeCore
import RealtimeSystem

/// A client of a server of Primus: one connection, its messages and its plugins.
///
/// ```swift
/// let primus = PrimusConnection(try PrimusConfiguration(url: "https://example.org/primus"))
/// primus.open()
/// for await reading in primus.messages(as: Reading.self) {
///     print(reading)
/// }
/// ```
/// All methods can be called from any thread. Those that aren't `async` return immediately. The closures of the configuration run in tasks of the
/// client. Keep a reference to the client for as long as it is needed: when it is released, the connection is closed, calls fail, and sequences
/// finish.
public final class PrimusConnection: Sendable {
    /// The settings that were set last, when the client was created or by the last ``update(_:)``.
    public var configuration: PrimusConfiguration { self.driver.read { $0.latestOptions.options } }
    package let driver: SessionDriver<PrimusSession>
    /// The plugins that the client contains, among those of the configuration, for life.
    let standardPlugins: PrimusPluginSet
    private let transforms: PrimusTransforms
    private let hooks: Task<Void, Never>?
    private let pathObservation: NetworkPathObservation?

    /// Creates a client. It doesn't connect until you call ``open()`` or ``run()``.
    ///
    /// The configuration is validated when the client is opened: an invalid value closes it with an error whose code is
    /// ``PrimusError/Code/invalidConfiguration``.
    ///
    /// - Parameter configuration: The settings. Changing your copy later doesn't affect the client; use ``update(_:)``.
    public init(_ configuration: PrimusConfiguration) {
        let session = PrimusSession(configuration, epoch: configuration.transports.epoch, seed: configuration.transports.seed())
        let driver = SessionDriver(session, in: configuration.dependencies(session.cookies))
        self.driver = driver
        self.standardPlugins = PrimusPluginSet(configuration.plugins)
        self.transforms = PrimusTransforms(configuration, driver)
        self.hooks = PrimusPluginHooks.start(configuration.plugins, driver)
        self.pathObservation = configuration.transports.networkPath?.observe(pacedBy: configuration.transports.time) { [weak driver] in
            driver?.step { $0.networkChanged(now: $1, &$2) }
        }
    }

    deinit {
        self.driver.shutDown()
        self.transforms.end()
    }

    // MARK: Connection

    /// Connects, and reconnects after each loss as the configuration says.
    ///
    /// The method returns immediately; ``state`` is then ``PrimusState/opening``. It has no effect if the client is open. With an invalid
    /// configuration, the state is ``PrimusState/closed(_:)`` with the error.
    public func open() { self.driver.step { $0.open(now: $1, &$2) } }

    /// Opens the client, unless it is open, and returns when it is ended by ``end()`` or by the server.
    ///
    /// If the task is cancelled, the client ends and this method returns without an error. The loss of a connection doesn't throw if the client
    /// reconnects.
    ///
    /// - Throws: ``PrimusError/Code/invalidConfiguration`` if a value of the configuration is invalid; otherwise the reason why the client can't
    ///   connect, or why it doesn't reconnect.
    public func run() async throws(PrimusError) {
        // Nothing is started for a task that is cancelled already.
        if Task.isCancelled { return self.end() }
        do throws(PrimusError) {
            _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                session.run(waiter, now: now, &effects)
            }
        } catch {
            // The session has ended the client.
            guard error.code == .cancelled else { throw error }
        }
    }

    /// Waits until the client is open, for example again after a loss.
    ///
    /// This method doesn't connect: call ``open()`` or ``run()``. If the task is cancelled, the call throws immediately, with the code
    /// ``PrimusError/Code/cancelled``, and the client isn't affected.
    ///
    /// - Parameter limit: The maximum time to wait. The default is 30 seconds.
    /// - Returns: The ID of the spark, if it is known; see ``id(within:)``.
    /// - Throws: ``PrimusError/Code/timedOut``, with the last failure to connect as its ``PrimusError/cause``, if there was one,
    ///   ``PrimusError/Code/cancelled``, ``PrimusError/Code/ended``, and the reason if the client closes by itself.
    @discardableResult
    public func opened(within limit: Duration = .seconds(30)) async throws(PrimusError) -> String? {
        let result = try await self.driver.awaitResult(limit: limit) { session, waiter, _, effects in
            session.awaitOpen(waiter, &effects)
        }
        if case .opened(let id) = result { return id }
        return nil
    }

    /// Waits until the client is open. The same as ``opened(within:)``, under the name that all clients of this package have.
    @discardableResult
    public func connected(within limit: Duration = .seconds(30)) async throws(PrimusError) -> String? {
        try await self.opened(within: limit)
    }

    /// Disconnects, and doesn't reconnect, whatever happens to the network.
    ///
    /// When the method returns, ``state`` is ``PrimusState/closed(_:)``, and calls that wait have failed with ``PrimusError/Code/ended``. Messages that
    /// were written before are sent first, also those that are still in a transform, for up to five seconds. Messages that wait for a connection
    /// because of `enqueue(_:)` stay in the queue. The client can be opened again immediately.
    public func end() { self.driver.stop() }

    /// Sends a last message, and disconnects.
    ///
    /// - Parameter value: The message.
    /// - Throws: The reason why the message wasn't sent, as `write(_:ifNotOpen:)`. The client is ended in any case.
    public func end(_ value: some Encodable & Sendable) async throws(PrimusError) {
        defer { self.end() }
        try await self.write(value, ifNotOpen: .failIfNotOpen)
    }

    /// Checks the connection now. Call it when your app returns to the foreground, or when your own monitor of the network reports a change.
    ///
    /// If the client is waiting for its next attempt to connect, or for the decision of a ``PrimusRetryPolicy/custom(_:)`` policy, it connects
    /// immediately. If it is open, it sends a ping, and treats the connection as lost if nothing arrives within 10 seconds. While the client is
    /// connecting or closed, this method has no effect.
    ///
    /// The method returns immediately. Don't call it repeatedly: each call skips the delay that protects the server.
    public func checkConnection() { self.driver.step { $0.checkConnection(now: $1, &$2) } }

    /// Connects now, if the client is waiting for its next attempt to connect. Otherwise, this method has no effect.
    public func reconnectNow() { self.driver.step { $0.reconnectNow(now: $1, &$2) } }

    /// Returns the ID of the spark, the server's side of the connection. It is asked for, unless it is known.
    ///
    /// - Parameter limit: The maximum time to wait. The default is 30 seconds.
    /// - Throws: ``PrimusError/Code/notOpen``, the reason if the connection is lost or ended, ``PrimusError/Code/timedOut``, and
    ///   ``PrimusError/Code/cancelled`` immediately when the task is cancelled.
    public func id(within limit: Duration = .seconds(30)) async throws(PrimusError) -> String {
        if Task.isCancelled { throw .cancelled }
        let result = try await self.driver.awaitResult(limit: limit) { session, waiter, now, effects in
            session.awaitSparkID(waiter, now: now, &effects)
        }
        guard case .sparkID(let id) = result else { throw .ended }
        return id
    }

    /// The kind of the connection in use; `nil` if the client isn't connected. A session of engine.io that began with polling changes to
    /// ``PrimusTransport/webSockets`` when it has moved.
    public var transport: PrimusTransport? { self.driver.read { $0.transport } }

    /// The current state of the client.
    public var state: PrimusState { self.driver.read { $0.state } }
    /// Whether the client is connected: ``state`` is ``PrimusState/open``.
    public var isConnected: Bool { self.driver.read { $0.state == .open } }
    /// The ID of the spark, if the client is open and the ID is known; see ``id(within:)``.
    public var sparkID: String? { self.driver.read { $0.sparkID } }
    /// The round-trip time that was measured last: when the connection was opened, and with each answer to a ping or to the question for the ID;
    /// `nil` before the first connection.
    public var latency: Duration? { self.driver.read { $0.latency } }
    /// The dialect of the connection; `nil` while it isn't open.
    public var dialect: PrimusDialect? { self.driver.read { $0.state == .open ? $0.attempt.dialect : nil } }
    /// The number of messages that wait for a connection or for a transform.
    public var queuedCount: Int { self.driver.read { $0.queuedCount } }
    /// Whether the network is presumed to be there: it isn't after the server has become silent, until the next connection.
    public var isOnline: Bool { self.driver.read { !$0.isOffline } }
    /// A snapshot of the numbers of messages, bytes, reconnects and failures since the client was created.
    public var counters: Counters { self.driver.counters }

    /// Removes the messages that wait for a connection because of `enqueue(_:)`.
    ///
    /// - Returns: Their number.
    @discardableResult
    public func clearQueue() -> Int {
        var count = 0
        self.driver.step { session, _, effects in
            let queue = session.queue
            count = session.queue.removeWithoutWaiters()
            session.removedFromQueue()
            effects.commands.append(.release(queue))
        }
        return count
    }

    /// Moves the messages that wait for a connection or for a transform to another client, behind those that it has. This client is closed.
    /// The limits of the other one don't apply to them.
    ///
    /// The other client's transforms begin again with a message for which a transform is running.
    package func moveMessages(to other: PrimusConnection) {
        var (queue, values) = (PrimusWriteQueue(), [PrimusValue]())
        self.driver.step { session, now, effects in (queue, values) = session.takeMessages(now: now, &effects) }
        if queue.isEmpty, values.isEmpty { return }
        // Parsers of the application are called without a lock. Another one is known when the connection is open.
        let coding = other.configuration.customParser.map { PrimusCoding($0) }
        var (entries, transforming, errors) = ([PrimusWriteQueue.Entry](), [(PrimusValue, PrimusContent)](), [PrimusError]())
        while var entry = queue.popFirst() {
            do throws(PrimusError) {
                entry.content = try entry.content.translated(to: coding)
                entries.append(entry)
            } catch {
                errors.append(error)
            }
        }
        // A transform may make another value of one that can't be encoded.
        for value in values { transforming.append((value, (try? PrimusContent.value(value).translated(to: coding)) ?? .value(value))) }
        other.driver.step { session, now, effects in
            for error in errors { session.report(error, &effects) }
            for entry in entries { session.takeOver(entry, now: now, &effects) }
            for (value, content) in transforming { session.takeOver(value, as: content, now: now, &effects) }
        }
    }

    /// The time until the next attempt to connect; `nil` if none is pending.
    ///
    /// To be told when a delay begins, use ``connectingIn``. To end the delay, call ``reconnectNow()``.
    public var reconnectDelay: Duration? {
        guard let next = self.driver.read({ $0.nextAttempt }) else { return nil }
        return max(.zero, self.driver.now.duration(to: next))
    }

    // MARK: Observing

    /// A sequence of the current ``state``, followed by every state that it changes to.
    ///
    /// No change is missing or repeated between the current state and the first change. The sequence continues across reconnects and after
    /// ``end()``, and finishes when the client is released. A consumer that is slower than the changes receives the latest ones.
    public var states: EventSequence<PrimusState> { self.sequence(startingWith: { $0.state }) { $0.state } }

    /// A sequence of the changes of ``state`` from now on, with the states before and after each change.
    ///
    /// The sequence continues and finishes like ``states``.
    public var stateChanges: EventSequence<PrimusStateChange> {
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
    /// It contains lost connections, failed attempts to connect, failures of transforms, invalid messages, and a specification that is missing
    /// although the client is open. Each failure is reported once. The client recovers from most of them; if it doesn't, ``state`` changes to
    /// ``PrimusState/closed(_:)``. Errors of calls are thrown to their callers, and aren't part of it.
    ///
    /// The sequence continues and finishes like ``states``.
    public var errors: EventSequence<PrimusError> { self.sequence { $0.error } }

    /// A sequence of all updates from now on, in one order.
    ///
    /// The sequence continues across reconnects and after ``end()``, and finishes when the client is released.
    ///
    /// - Parameter buffer: The policy for updates that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func updates(buffer: BufferPolicy = .standard) -> EventSequence<PrimusUpdate> { self.sequence(buffer) { $0.update } }

    /// Returns all messages from now on that the client sends and receives, without their secrets, for a log or a console for developers.
    ///
    /// Messages are in the order in which the client handles them, also across reconnects, and with their framing. Binary ones are shown as their
    /// size. Credentials, cookies and values of the header fields of the configuration are replaced by `…`. A long text is shortened.
    ///
    /// The sequence continues across reconnects and finishes when the client is released.
    ///
    /// - Parameter buffer: The policy for messages that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func frames(buffer: BufferPolicy = .standard) -> EventSequence<PrimusFrameTrace> {
        let convert = eachElement { (event: PrimusEvent) in if case .frame(let frame) = event { frame } else { nil } }
        return self.driver.makeSequence(buffer, lifetime: .client, convert: convert) { session, consumer, effects in
            session.observeFrames(consumer, &effects)
        }
    }

    /// Calls a closure on the main actor with all updates from now on.
    ///
    /// The callbacks run in the order of the updates and one at a time. They continue across reconnects, and after ``end()`` and another
    /// ``open()``.
    ///
    /// - Parameters:
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - callback: Called with each update. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onUpdate(
        buffer: BufferPolicy = .standard, _ callback: @escaping @MainActor @Sendable (PrimusUpdate) -> Void
    ) -> PrimusObservation {
        self.onUpdate(on: .main, buffer: buffer, CallbackExecutor.onMain(callback))
    }

    /// Calls a closure on an executor with all updates from now on.
    ///
    /// The callbacks run in the order of the updates and one at a time. They continue across reconnects, and after ``end()`` and another
    /// ``open()``.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - callback: Called with each update. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onUpdate(
        on executor: PrimusCallbackExecutor, buffer: BufferPolicy = .standard, _ callback: @escaping @Sendable (PrimusUpdate) -> Void
    ) -> PrimusObservation {
        let convert = eachElement { (event: PrimusEvent) in event.update }
        return self.driver.observe(
            buffer, lifetime: .client, named: "The callback of the updates", on: executor, convert: convert,
            calls: CallbackCalls(callback)
        ) { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    private func sequence<Element: Sendable>(
        _ buffer: BufferPolicy = .standard, startingWith first: (borrowing PrimusSession) -> Element? = { _ in nil },
        _ element: @escaping @Sendable (PrimusEvent) -> Element?
    ) -> EventSequence<Element> {
        self.driver.makeSequence(buffer, lifetime: .client, startingWith: first, convert: eachElement(element)) {
            session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        }
    }

    /// Calls a closure with all updates, messages, and events of the client for JavaScript, of primus-emitter and of primus-emit, in one order.
    ///
    /// While the events that wait for the callback exceed a size, the client doesn't read.
    ///
    /// - Parameters:
    ///   - executor: Where the callback runs.
    ///   - byteLimit: The size. Each event counts as 100 bytes, and a packet adds its own.
    ///   - isNeeded: Whether the callback receives an event. Called under a lock.
    ///   - callback: Called with each event.
    /// - Returns: The registration. Releasing it ends the callbacks.
    package func observeEvents(
        on executor: CallbackExecutor, byteLimit: Int = 1 << 20,
        isNeeded: @escaping @Sendable (PrimusEvent) -> Bool = { _ in true }, _ callback: @escaping @Sendable (PrimusEvent) -> Void
    ) -> CallbackObservation {
        let schedule = self.driver.makeCallbackWatch(.notBegun).following(executor.schedule, "The listener of an event")
        let queue = CallbackQueue(
            .pauseReading(.max), byteLimit: ByteLimit(byteLimit) { 100 + $0.packetSize }, keepsOrder: executor.keepsOrder,
            schedule: schedule, calls: CallbackCalls(callback))
        return self.driver.observe(into: queue, lifetime: .client) { events, output in
            for event in events where isNeeded(event) { output.append(event) }
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
            session.observeMessages(consumer, &effects)
            session.observeTraces(consumer, &effects)
            for source in [PrimusSession.PluginSource.events(.connection), .emits] { session.observe(source, consumer, &effects) }
        }
    }

    /// A sequence of all updates, messages and events of the client for JavaScript, in one order.
    package func events(buffer: BufferPolicy = .pauseReading(1024)) -> EventSequence<PrimusEvent> {
        self.driver.makeSequence(buffer, lifetime: .client) { events, output in
            output.append(contentsOf: events)
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
            session.observeMessages(consumer, &effects)
            session.observeTraces(consumer, &effects)
        }
    }

    /// A sequence of all updates, messages, and events and requests of plugins, in one order.
    package var received: EventSequence<PrimusEvent> {
        let buffer = self.driver.read { $0.options.messageBuffer }
        let limit = ByteLimit<PrimusEvent>(buffer.bytes) { $0.size }
        return self.driver.makeSequence(.pauseReading(buffer.count), byteLimit: limit, lifetime: .client) { events, output in
            output.append(contentsOf: events)
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
            session.observeMessages(consumer, &effects)
            for source in [PrimusSession.PluginSource.events(.connection), .emits, .requests] {
                session.observe(source, consumer, &effects)
            }
        }
    }

    // MARK: Changing the settings

    /// Changes settings of the client. They apply from the next attempt to connect, including the delay before it.
    ///
    /// ```swift
    /// try primus.update { $0.retry = .primus }
    /// ```
    /// A connection, and an attempt that is in progress, keep their settings. If there is neither, the settings apply immediately, except that
    /// a delay that has begun isn't changed.
    ///
    /// A client keeps its ``PrimusConfiguration/customTransformer``, its ``PrimusConfiguration/customParser``, its
    /// ``PrimusConfiguration/transforms``, its ``PrimusConfiguration/plugins``, its ``PrimusConfiguration/transports`` and its
    /// ``PrimusConfiguration/log``.
    ///
    /// - Parameter change: A closure that changes a copy of ``configuration``. It runs on the calling thread, without a lock, and again if
    ///   another call has changed the settings in the meantime.
    /// - Throws: ``PrimusError/Code/invalidConfiguration`` if a value is invalid, or if a setting was set that a client keeps. The client then
    ///   keeps its settings.
    public func update(_ change: (inout PrimusConfiguration) -> Void) throws(PrimusError) {
        try self.driver.updateOptions { old throws(PrimusError) in
            var new = old
            change(&new)
            guard new.keeps(old) else {
                let message =
                    "A client keeps its own transformer and parser, its transforms, its plugins, its log and its transports. Create another "
                    + "client to change them."
                throw PrimusError(.invalidConfiguration, message)
            }
            if let error = new.validationError { throw PrimusError(.invalidConfiguration, "Invalid configuration: \(error)") }
            return new
        }
    }

    /// Adds a transform behind those of the configuration. It applies to the messages that arrive or are written from now on.
    public func addTransform(_ transform: PrimusTransform) { self.transforms.add(transform) }
}
