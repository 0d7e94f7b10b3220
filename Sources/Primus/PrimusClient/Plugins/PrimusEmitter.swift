import PrimusWire
public import RealtimeCore

extension PrimusConnection {
    /// An event of primus-emitter or primus-emit for a consumer of ``observeEvents(on:byteLimit:isNeeded:_:)``.
    package func emitterEvent(_ event: PrimusPluginEvent) -> PrimusEmitterEvent? {
        let calls = PluginCalls(self)
        let convert = calls.event(nil, nil)
        // The compiler would warn that the weak reference of the conversion is nil.
        return withExtendedLifetime(calls) { convert(event) }
    }

    /// Sends an event of primus-emitter without waiting, in the order of `enqueue(_:)`.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: Its arguments.
    /// - Returns: Whether the event was taken. If not, an update reports why.
    package func enqueueEvent(_ event: String, _ arguments: [PrimusValue]) throws(PrimusError) -> Bool {
        try self.emitter.validate(event)
        return self.enqueue(["type": 0, "data": .array([.string(event)] + arguments)])
    }

    /// The events of primus-emitter, of the connection itself. See ``PrimusChannel/emitter`` for those of a channel.
    public var emitter: PrimusEmitter { PrimusEmitter(PluginCalls(self), .connection, nil) }

    /// The events of primus-emit.
    public var emits: PrimusEmits { PrimusEmits(PluginCalls(self)) }
}

/// Sends and receives events with primus-emitter.
///
/// ```swift
/// try await primus.emitter.send("log", "started")
/// let todos: [Todo] = try await primus.emitter.send("find", "todos")
/// for await event in primus.emitter.on("news") {
///     print(try event.decode(String.self))
/// }
/// ```
/// Events with names that Primus reserves, such as `data`, are refused, because the server would ignore them.
public struct PrimusEmitter: Sendable {
    private let calls: PluginCalls
    private let scope: PrimusPluginState.Scope
    let address: MultiplexAddress?

    init(_ calls: PluginCalls, _ scope: PrimusPluginState.Scope, _ address: MultiplexAddress?) {
        (self.calls, self.scope, self.address) = (calls, scope, address)
    }

    private var plugins: PrimusPluginSet { self.address == nil ? .emitter : [.emitter, .multiplex] }

    // MARK: Sending

    /// Sends an event without an acknowledgement, as `write(_:)` sends a message: it waits in the queue while the client isn't
    /// open.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments, in the order of the parameters of the server's listener.
    /// - Throws: ``PrimusError/Code/pluginOff``, ``PrimusError/Code/reservedEvent``, ``PrimusError/Code/encodingFailed``, and the errors of
    ///   `write(_:)`; on a channel, ``PrimusError/Code/ended`` if it was left or ended by the server.
    public func send<each Argument: Encodable & Sendable>(_ event: String, _ arguments: repeat each Argument) async throws(PrimusError) {
        try self.validate(event)
        try await self.calls.write(self.address, in: self.scope) { coding in
            .emitter(.event(name: event, try PrimusArguments(event, repeat each arguments, in: coding), id: nil))
        }
    }

    /// Sends an event and waits for its acknowledgement.
    ///
    /// If the client is opening or reconnects, the call waits until it is open.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments, in the order of the parameters of the server's listener.
    ///   - type: The type of the acknowledgement's first argument. An acknowledgement without arguments has the argument `nil` of an optional
    ///     type.
    ///   - limit: The maximum time to wait; `nil`, the default, to wait as long as the connection lasts.
    /// - Returns: The first argument of the acknowledgement.
    /// - Throws: ``PrimusError/Code/pluginOff``, ``PrimusError/Code/reservedEvent``, ``PrimusError/Code/encodingFailed``,
    ///   ``PrimusError/Code/decodingFailed``, ``PrimusError/Code/notOpen`` if the client is closed, the reason if the connection is lost or the
    ///   client ended, ``PrimusError/Code/timedOut``, and ``PrimusError/Code/cancelled`` immediately when the task is cancelled.
    public func send<each Argument: Encodable & Sendable, Value: Decodable>(
        _ event: String, _ arguments: repeat each Argument, as type: Value.Type = Value.self, within limit: Duration? = nil
    ) async throws(PrimusError) -> Value {
        try Self.firstArgument(of: try await self.acknowledgement(of: event, repeat each arguments, within: limit), event, as: type)
    }

    /// Decodes the first argument of an acknowledgement.
    static func firstArgument<Value: Decodable>(
        of acknowledgement: PrimusArguments, _ event: String, as type: Value.Type
    ) throws(PrimusError) -> Value {
        do {
            var reader = acknowledgement.reader
            return try reader.argument(type)
        } catch {
            throw Self.decoding(error, of: event)
        }
    }

    /// Sends an event and waits for its acknowledgement with several arguments, such as an error and a result.
    ///
    /// ```swift
    /// let (error, todo) = try await primus.emitter.send("get", 5, returning: String?.self, Todo?.self)
    /// ```
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments, in the order of the parameters of the server's listener.
    ///   - types: The types of the acknowledgement's arguments. There may be more of them than types, and fewer if the types of the last
    ///     ones are optional: the missing ones are `nil`.
    ///   - limit: The maximum time to wait; `nil`, the default, to wait as long as the connection lasts.
    /// - Returns: The arguments of the acknowledgement.
    /// - Throws: The errors of ``send(_:_:as:within:)``.
    public func send<each Argument: Encodable & Sendable, each Value: Decodable>(
        _ event: String, _ arguments: repeat each Argument, returning types: repeat (each Value).Type, within limit: Duration? = nil
    ) async throws(PrimusError) -> (repeat each Value) {
        try Self.decode(try await self.acknowledgement(of: event, repeat each arguments, within: limit), of: event, repeat each types)
    }

    /// Sends an event whose arguments' number isn't known to the compiler; see ``send(_:_:)``.
    package func send(_ event: String, values: [PrimusValue]) async throws(PrimusError) {
        try self.validate(event)
        try await self.calls.write(self.address, in: self.scope) { coding in
            .emitter(.event(name: event, try PrimusArguments(event, values: values, in: coding), id: nil))
        }
    }

    /// Sends an event and waits for its acknowledgement, whose arguments' number isn't known to the compiler; see ``send(_:_:as:within:)``.
    package func acknowledgement(
        of event: String, values: [PrimusValue], within limit: Duration?
    ) async throws(PrimusError) -> [PrimusValue] {
        let arguments = try await self.arguments(acknowledging: event, values: values, within: limit)
        do {
            return try arguments.values()
        } catch {
            throw .decoding(error, "values")
        }
    }

    func arguments(
        acknowledging event: String, values: [PrimusValue], within limit: Duration?
    ) async throws(PrimusError) -> PrimusArguments {
        try self.validate(event)
        return try await self.calls.acknowledgement(of: event, in: self.scope, within: limit) { coding in
            try PrimusArguments(event, values: values, in: coding)
        }
    }

    private func acknowledgement<each Argument: Encodable & Sendable>(
        of event: String, _ arguments: repeat each Argument, within limit: Duration?
    ) async throws(PrimusError) -> PrimusArguments {
        try self.validate(event)
        return try await self.calls.acknowledgement(of: event, in: self.scope, repeat each arguments, within: limit)
    }

    fileprivate func validate(_ event: String) throws(PrimusError) {
        try self.calls.check(self.plugins)
        do throws(PrimusPluginError) {
            try PrimusEventName.validate(event, for: .server, hasChannels: self.calls.has(.multiplex))
        } catch {
            throw .name(error)
        }
    }

    private static func decode<each Value: Decodable>(
        _ arguments: PrimusArguments, of event: String, _ types: repeat (each Value).Type
    ) throws(PrimusError) -> (repeat each Value) {
        do {
            return try arguments.decode(repeat each types)
        } catch {
            throw Self.decoding(error, of: event)
        }
    }

    private static func decoding(_ error: PrimusArgumentError, of event: String) -> PrimusError {
        let message = "The acknowledgement of \(Excerpt.of(event, limit: 200)) can't be decoded. \(error)"
        return PrimusError(.decodingFailed, message, cause: error.underlying)
    }

    // MARK: Receiving

    /// A sequence of the events with a name from now on.
    ///
    /// When the consumer is slower than the server, the client stops reading; see ``PrimusConfiguration/messageBuffer``. The sequence continues
    /// across reconnects, and finishes when the client is released, or when the channel to which it belongs has ended. Without the plugin, or
    /// for a name that Primus reserves, it has no elements.
    ///
    /// - Parameter event: The name of the event.
    public func on(_ event: String) -> EventSequence<PrimusEmitterEvent> {
        self.calls.events(.events(self.scope), event, self.address)
    }

    /// Calls a closure on the main actor with the events with a name from now on.
    ///
    /// The callbacks run in the order of the events and one at a time, and continue across reconnects.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ event: String, _ callback: @escaping @MainActor @Sendable (PrimusEmitterEvent) -> Void
    ) -> PrimusObservation {
        self.on(event, on: .main, CallbackExecutor.onMain(callback))
    }

    /// Calls a closure on an executor with the events with a name from now on.
    ///
    /// The callbacks run in the order of the events and one at a time, and continue across reconnects.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - executor: Where the callbacks run.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ event: String, on executor: PrimusCallbackExecutor, _ callback: @escaping @Sendable (PrimusEmitterEvent) -> Void
    ) -> PrimusObservation {
        self.calls.observe(
            .events(self.scope), named: "The callback of the event \(Excerpt.of(event, limit: 100))", on: executor,
            self.calls.event(event, self.address), callback)
    }

    /// A sequence of all events from now on, with any name; otherwise as ``on(_:)``.
    public var events: EventSequence<PrimusEmitterEvent> { self.calls.events(.events(self.scope), nil, self.address) }
}

/// Sends and receives events with primus-emit, which has no acknowledgements.
///
/// ```swift
/// try await primus.emits.send("log", "started")
/// ```
public struct PrimusEmits: Sendable {
    private let calls: PluginCalls

    init(_ calls: PluginCalls) { self.calls = calls }

    /// Sends an event, as `write(_:)` sends a message: it waits in the queue while the client isn't open.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments, in the order of the parameters of the server's listener.
    /// - Throws: ``PrimusError/Code/pluginOff``, ``PrimusError/Code/reservedEvent``, ``PrimusError/Code/encodingFailed``, and the errors of
    ///   `write(_:)`.
    public func send<each Argument: Encodable & Sendable>(_ event: String, _ arguments: repeat each Argument) async throws(PrimusError) {
        try self.check(event)
        try await self.calls.write(nil, in: .connection) { coding in
            .emit(EmitPacket(name: event, try PrimusArguments(event, repeat each arguments, in: coding)))
        }
    }

    /// Sends an event whose arguments' number isn't known to the compiler; see ``send(_:_:)``.
    package func send(_ event: String, values: [PrimusValue]) async throws(PrimusError) {
        try self.check(event)
        try await self.calls.write(nil, in: .connection) { coding in
            .emit(EmitPacket(name: event, try PrimusArguments(event, values: values, in: coding)))
        }
    }

    private func check(_ event: String) throws(PrimusError) {
        try self.calls.check(.emit)
        do throws(PrimusPluginError) {
            try PrimusEventName.validateEmit(event)
        } catch {
            throw .name(error)
        }
    }

    /// A sequence of the events with a name from now on, as ``PrimusEmitter/on(_:)``.
    ///
    /// - Parameter event: The name of the event.
    public func on(_ event: String) -> EventSequence<PrimusEmitterEvent> { self.calls.events(.emits, event, nil) }

    /// Calls a closure on the main actor with the events with a name from now on, as ``PrimusEmitter/on(_:_:)``.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ event: String, _ callback: @escaping @MainActor @Sendable (PrimusEmitterEvent) -> Void
    ) -> PrimusObservation {
        self.on(event, on: .main, CallbackExecutor.onMain(callback))
    }

    /// Calls a closure on an executor with the events with a name from now on, as ``PrimusEmitter/on(_:on:_:)``.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - executor: Where the callbacks run.
    ///   - callback: Called with each event. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func on(
        _ event: String, on executor: PrimusCallbackExecutor, _ callback: @escaping @Sendable (PrimusEmitterEvent) -> Void
    ) -> PrimusObservation {
        self.calls.observe(
            .emits, named: "The callback of the event \(Excerpt.of(event, limit: 100))", on: executor, self.calls.event(event, nil),
            callback)
    }

    /// A sequence of all events from now on, with any name; otherwise as ``on(_:)``.
    public var events: EventSequence<PrimusEmitterEvent> { self.calls.events(.emits, nil, nil) }
}
