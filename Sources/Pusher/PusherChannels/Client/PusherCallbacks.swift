public import RealtimeCore
public import RealtimeJSON

/// Where callbacks run.
///
/// Callbacks never run on the thread that reads from the connection, nor under a lock. Whatever the executor, those of one registration run
/// in order and one at a time.
public struct PusherCallbackExecutor: Sendable {
    let schedule: CallbackSchedule

    /// Creates an executor from a closure that runs another closure later, for example on a queue:
    ///
    /// ```swift
    /// let executor = PusherCallbackExecutor { run in queue.async { run() } }
    /// ```
    /// The client calls the closure when events have arrived and no delivery is pending. What it passes delivers all events that are waiting,
    /// and those that arrive meanwhile.
    ///
    /// - Parameter schedule: Runs the closure that it receives, once. It is called on any thread and should return immediately; it must not run
    ///   the closure itself, because events would wait for the callback.
    public init(_ schedule: @escaping @Sendable (_ run: @escaping @Sendable () -> Void) -> Void) {
        self.schedule = schedule
    }

    /// The threads on which tasks run that belong to no actor.
    public static let tasks = PusherCallbackExecutor { run in
        // An unstructured task, since a callback has no caller. One delivery is scheduled at a time, so tasks need no order.
        Task { run() }
    }

    /// The executor of an actor, so that callbacks may use its state with `assumeIsolated`.
    ///
    /// - Parameter actor: The actor, which the registration keeps alive.
    /// - Returns: The executor.
    public static func isolated(to actor: any Actor) -> PusherCallbackExecutor {
        // An unstructured task for the same reasons.
        PusherCallbackExecutor { run in Task { await Self.run(run, on: actor) } }
    }

    private static func run(_ body: @Sendable () -> Void, on actor: isolated any Actor) { body() }

    /// The main actor.
    static let main = PusherCallbackExecutor { run in
        // An unstructured task for the same reasons.
        Task { @MainActor in run() }
    }
}

/// The registration of a callback. Releasing it ends the callbacks.
///
/// It keeps neither its client nor its channel alive.
public final class PusherObservation: Sendable {
    private let token: ObservationToken

    init(_ token: ObservationToken) {
        self.token = token
    }

    /// Ends the callbacks.
    ///
    /// If you call this method where the callbacks run, for example on the main actor, none is called after it has returned. Elsewhere, one may
    /// still be running. Calling it again has no effect.
    public func cancel() { self.token.cancel() }

    /// Calls the callback with the pending elements on the calling thread, unless it is being called.
    package func drainNow() { self.token.drainNow() }

    static let event: @Sendable (PusherUpdate) -> PusherEvent? = { if case .event(let event) = $0 { event } else { nil } }

    /// Returns a callback that is called where the main actor runs.
    static func onMain<Element: Sendable>(
        _ callback: @escaping @MainActor @Sendable (Element) -> Void
    ) -> @Sendable (Element) -> Void {
        { element in MainActor.assumeIsolated { callback(element) } }
    }
}

extension PusherClient {
    /// Calls a closure on the main actor with the events of all channels from now on, and with the server's events that don't belong to a
    /// channel.
    ///
    /// The callbacks run in the order of the events and one at a time. They continue across reconnects, and after ``disconnect()`` and another
    /// ``connect()``.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ name: String? = nil, buffer: BufferPolicy = .standard, _ callback: @escaping @MainActor @Sendable (PusherEvent) -> Void
    ) -> PusherObservation {
        self.on(name, on: .main, buffer: buffer, PusherObservation.onMain(callback))
    }

    /// Calls a closure on an executor with the events of all channels from now on, and with the server's events that don't belong to a channel.
    ///
    /// The callbacks run in the order of the events and one at a time. They continue across reconnects, and after ``disconnect()`` and another
    /// ``connect()``.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events.
    ///   - executor: Where the callbacks run.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ name: String? = nil, on executor: PusherCallbackExecutor, buffer: BufferPolicy = .standard,
        _ callback: @escaping @Sendable (PusherEvent) -> Void
    ) -> PusherObservation {
        self.observe(.events(channel: nil, name: name), buffer, on: executor, PusherObservation.event, callback)
    }

    /// Calls a closure on the main actor with the decoded data of the events with a name, on all channels, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``errors`` with the code
    /// ``PusherError/Code/decodingFailed``. The callbacks continue and end like those of ``on(_:buffer:_:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each value. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on<Value: Decodable & Sendable>(
        _ name: String, as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard,
        _ callback: @escaping @MainActor @Sendable (Value) -> Void
    ) -> PusherObservation {
        self.on(name, as: type, on: .main, with: decoder, buffer: buffer, PusherObservation.onMain(callback))
    }

    /// Calls a closure on an executor with the decoded data of the events with a name, on all channels, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``errors`` with the code
    /// ``PusherError/Code/decodingFailed``. The callbacks continue and end like those of ``on(_:on:buffer:_:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - executor: Where the data is decoded and the callbacks run.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each value. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on<Value: Decodable & Sendable>(
        _ name: String, as type: Value.Type, on executor: PusherCallbackExecutor, with decoder: JSONValueDecoder = JSONValueDecoder(),
        buffer: BufferPolicy = .standard, _ callback: @escaping @Sendable (Value) -> Void
    ) -> PusherObservation {
        self.observe(.events(channel: nil, name: name), as: type, decoder, buffer, on: executor, callback)
    }

    /// Calls a closure on the main actor with all updates from now on: events, and changes of the connection, the channels and their members.
    ///
    /// The callbacks run in the order of the updates and one at a time. They continue across reconnects, and after ``disconnect()`` and another
    /// ``connect()``.
    ///
    /// - Parameters:
    ///   - includingFrames: Whether to include all frames, as in ``updates(includingFrames:buffer:)``.
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - callback: Called with each update. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onUpdate(
        includingFrames: Bool = false, buffer: BufferPolicy = .standard, _ callback: @escaping @MainActor @Sendable (PusherUpdate) -> Void
    ) -> PusherObservation {
        self.onUpdate(on: .main, includingFrames: includingFrames, buffer: buffer, PusherObservation.onMain(callback))
    }

    /// Calls a closure on an executor with all updates from now on: events, and changes of the connection, the channels and their members.
    ///
    /// The callbacks run in the order of the updates and one at a time. They continue across reconnects, and after ``disconnect()`` and another
    /// ``connect()``.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - includingFrames: Whether to include all frames, as in ``updates(includingFrames:buffer:)``.
    ///   - buffer: The policy for updates that the callback hasn't handled yet.
    ///   - callback: Called with each update. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onUpdate(
        on executor: PusherCallbackExecutor, includingFrames: Bool = false, buffer: BufferPolicy = .standard,
        _ callback: @escaping @Sendable (PusherUpdate) -> Void
    ) -> PusherObservation {
        self.observe(.updates(frames: includingFrames), buffer, on: executor, { $0 }, callback)
    }
}

extension PusherChannel {
    /// Calls a closure on the main actor with the channel's events from now on.
    ///
    /// ```swift
    /// self.observation = channel.on("price") { [weak self] event in
    ///     self?.title = event.data ?? ""
    /// }
    /// ```
    /// The callbacks run in the order of the events and one at a time. They continue across reconnects, and after
    /// ``PusherClient/disconnect()`` and another ``PusherClient/connect()``, until the channel is unsubscribed. If the client isn't subscribed
    /// to the channel, the closure isn't called.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events of the channel; see ``events(_:buffer:)``.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ name: String? = nil, buffer: BufferPolicy = .standard, _ callback: @escaping @MainActor @Sendable (PusherEvent) -> Void
    ) -> PusherObservation {
        self.on(name, on: .main, buffer: buffer, PusherObservation.onMain(callback))
    }

    /// Calls a closure on an executor with the channel's events from now on.
    ///
    /// The callbacks run in the order of the events and one at a time. They continue across reconnects, and after
    /// ``PusherClient/disconnect()`` and another ``PusherClient/connect()``, until the channel is unsubscribed. If the client isn't subscribed
    /// to the channel, the closure isn't called.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events of the channel; see ``events(_:buffer:)``.
    ///   - executor: Where the callbacks run.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ name: String? = nil, on executor: PusherCallbackExecutor, buffer: BufferPolicy = .standard,
        _ callback: @escaping @Sendable (PusherEvent) -> Void
    ) -> PusherObservation {
        self.client.observe(.events(channel: self.name, name: name), buffer, on: executor, PusherObservation.event, callback)
    }

    /// Calls a closure on the main actor with the decoded data of the channel's events with a name, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``PusherClient/errors`` with the
    /// code ``PusherError/Code/decodingFailed``. The callbacks continue and end like those of ``on(_:buffer:_:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each value. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on<Value: Decodable & Sendable>(
        _ name: String, as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard,
        _ callback: @escaping @MainActor @Sendable (Value) -> Void
    ) -> PusherObservation {
        self.on(name, as: type, on: .main, with: decoder, buffer: buffer, PusherObservation.onMain(callback))
    }

    /// Calls a closure on an executor with the decoded data of the channel's events with a name, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``PusherClient/errors`` with the
    /// code ``PusherError/Code/decodingFailed``. The callbacks continue and end like those of ``on(_:on:buffer:_:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - executor: Where the data is decoded and the callbacks run.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the callback hasn't handled yet.
    ///   - callback: Called with each value. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on<Value: Decodable & Sendable>(
        _ name: String, as type: Value.Type, on executor: PusherCallbackExecutor, with decoder: JSONValueDecoder = JSONValueDecoder(),
        buffer: BufferPolicy = .standard, _ callback: @escaping @Sendable (Value) -> Void
    ) -> PusherObservation {
        self.client.observe(.events(channel: self.name, name: name), as: type, decoder, buffer, on: executor, callback)
    }
}
