public import RealtimeCore
public import RealtimeCoding

/// Where callbacks run.
///
/// Callbacks never run on the thread that reads from the connection, nor under a lock. Whatever the executor, the callbacks of one
/// registration run in order and one at a time.
///
/// ```swift
/// let executor = PusherCallbackExecutor { run in queue.async { run() } }
/// ```
public typealias PusherCallbackExecutor = CallbackExecutor

/// The registration of a callback. Releasing it ends the callbacks.
///
/// It keeps neither its client nor its channel alive.
public typealias PusherObservation = CallbackObservation

extension PusherUpdate {
    /// Returns the event of an update, if it is one.
    static let event: @Sendable (PusherUpdate) -> PusherEvent? = { if case .event(let event) = $0 { event } else { nil } }

    /// Appends the events of several updates. One closure for all of them costs less than ``event`` for each.
    static let events: EventConversion<PusherUpdate, PusherEvent> = { updates, output in
        for case .event(let event) in updates { output.append(event) }
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
        self.on(name, on: .main, buffer: buffer, CallbackExecutor.onMain(callback))
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
        self.observe(.events(channel: nil, name: name), buffer, on: executor, PusherUpdate.event, callback)
    }

    /// Calls a closure on the main actor with the decoded data of the events with a name, on all channels, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``errors`` with the code
    /// ``PusherError/Code/decodingFailed``. The callbacks continue and end as with ``on(_:buffer:_:)``.
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
        self.on(name, as: type, on: .main, with: decoder, buffer: buffer, CallbackExecutor.onMain(callback))
    }

    /// Calls a closure on an executor with the decoded data of the events with a name, on all channels, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``errors`` with the code
    /// ``PusherError/Code/decodingFailed``. The callbacks continue and end as with ``on(_:on:buffer:_:)``.
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
        self.onUpdate(on: .main, includingFrames: includingFrames, buffer: buffer, CallbackExecutor.onMain(callback))
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
        self.on(name, on: .main, buffer: buffer, CallbackExecutor.onMain(callback))
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
        self.client.observe(.events(channel: self.name, name: name), buffer, on: executor, PusherUpdate.event, callback)
    }

    /// Calls a closure on the main actor with the decoded data of the channel's events with a name, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``PusherClient/errors`` with the
    /// code ``PusherError/Code/decodingFailed``. The callbacks continue and end as with ``on(_:buffer:_:)``.
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
        self.on(name, as: type, on: .main, with: decoder, buffer: buffer, CallbackExecutor.onMain(callback))
    }

    /// Calls a closure on an executor with the decoded data of the channel's events with a name, from now on.
    ///
    /// The data is decoded where the callbacks run. An event that can't be decoded is skipped, and reported to ``PusherClient/errors`` with the
    /// code ``PusherError/Code/decodingFailed``. The callbacks continue and end as with ``on(_:on:buffer:_:)``.
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
