public import PrimusWire
public import RealtimeCore

extension PrimusConnection {
    /// Joins a channel of primus-multiplex.
    ///
    /// ```swift
    /// let news = primus.channel("news")
    /// try await news.write("hello")
    /// for await message in news.messages {
    ///     print(try message.decode(as: String.self))
    /// }
    /// ```
    /// The client joins the channel now or as soon as it is open, and again after each reconnect, until ``PrimusChannel/leave()``. Each call
    /// joins once more: the server sends messages to each of them. Without the plugin, the channel has ended already.
    ///
    /// - Parameter name: The name of the channel.
    public func channel(_ name: String) -> PrimusChannel { PrimusChannel(name, PluginCalls(self)) }

    /// Opens a stream of the plugin substream, which both sides know by its name.
    ///
    /// ```swift
    /// let log = primus.substream("log")
    /// try await log.write("started")
    /// ```
    /// A name has one stream at a time: another call returns the same one. It continues across reconnects, until one of the sides ends it.
    /// Messages on a stream that isn't open are among the ``messages`` of the client. Without the plugin, the stream has ended already.
    ///
    /// - Parameter name: The name of the stream.
    public func substream(_ name: String) -> PrimusSubstream { PrimusSubstream(name, PluginCalls(self)) }
}

/// A channel of primus-multiplex; see ``PrimusConnection/channel(_:)``.
///
/// Releasing it doesn't leave the channel.
public struct PrimusChannel: Sendable {
    /// The name of the channel.
    public let name: String
    private let calls: PluginCalls
    private let number: UInt64
    private let address: MultiplexAddress

    init(_ name: String, _ calls: PluginCalls) {
        var (number, address) = (UInt64(0), MultiplexAddress(id: "", channel: name))
        if calls.has(.multiplex) {
            calls.driver.step { session, now, effects in (number, address) = session.joinChannel(name, now: now, &effects) }
        }
        (self.name, self.calls, self.number, self.address) = (name, calls, number, address)
    }

    /// Events on the channel, if the plugin emitter is on as well.
    public var emitter: PrimusEmitter { PrimusEmitter(self.calls, .channel(self.number), self.address) }

    /// Whether the channel was neither left, nor ended by the server.
    public var isJoined: Bool { self.calls.driver.read { $0.hasChannel(self.number) } }

    /// Sends a message to the server's side of the channel, as `write(_:)`: it waits in the queue while the client isn't open.
    ///
    /// - Parameter value: The message.
    /// - Throws: ``PrimusError/Code/pluginOff``, ``PrimusError/Code/ended`` if the channel was left or ended by the server,
    ///   ``PrimusError/Code/encodingFailed``, and the errors of `write(_:)`.
    public func write<Value: Encodable & Sendable>(_ value: Value) async throws(PrimusError) {
        try self.calls.check(.multiplex)
        let address = self.address
        try await self.calls.write(nil, in: .channel(self.number)) { coding in
            .multiplex(.message(address, try PrimusPayload(encoding: value, coding)))
        }
    }

    /// A sequence of the messages of the channel from now on.
    ///
    /// When the consumer is slower than the server, the client stops reading; see ``PrimusConfiguration/messageBuffer``. The sequence continues
    /// across reconnects, and finishes when the channel is left or ended by the server, or the client is released.
    public var messages: EventSequence<PrimusPluginMessage> { self.calls.messages(.channel(self.number)) }

    /// Calls a closure on an executor with the messages of the channel from now on, in order and one at a time.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - callback: Called with each message. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onMessage(
        on executor: PrimusCallbackExecutor, _ callback: @escaping @Sendable (PrimusPluginMessage) -> Void
    ) -> PrimusObservation {
        self.calls.observe(
            .channel(self.number), named: "The callback of the channel \(Excerpt.of(self.name, limit: 100))", on: executor,
            PluginCalls.message, callback)
    }

    /// Leaves the channel. Its sequences finish, and calls that wait for an acknowledgement on it fail with ``PrimusError/Code/ended``.
    public func leave() {
        self.calls.driver.step { session, now, effects in session.leaveChannel(self.number, now: now, &effects) }
    }
}

/// A stream of the plugin substream; see ``PrimusConnection/substream(_:)``.
///
/// Releasing it doesn't end the stream.
public struct PrimusSubstream: Sendable {
    /// The name of the stream.
    public let name: String
    private let calls: PluginCalls
    private let number: UInt64

    init(_ name: String, _ calls: PluginCalls) {
        var number: UInt64 = 0
        if calls.has(.substream) { calls.driver.step { session, _, _ in number = session.openStream(name) } }
        (self.name, self.calls, self.number) = (name, calls, number)
    }

    /// Whether no side has ended the stream.
    public var isOpen: Bool { self.calls.driver.read { $0.hasStream(self.number) } }

    /// Sends a message on the stream, as `write(_:)`: it waits in the queue while the client isn't open.
    ///
    /// - Parameter value: The message.
    /// - Throws: ``PrimusError/Code/pluginOff``, ``PrimusError/Code/ended`` if one of the sides has ended the stream,
    ///   ``PrimusError/Code/encodingFailed``, and the errors of `write(_:)`.
    public func write<Value: Encodable & Sendable>(_ value: Value) async throws(PrimusError) {
        try self.calls.check(.substream)
        guard self.isOpen else { throw .streamEnded }
        let name = self.name
        try await self.calls.write(nil, in: .connection) { coding in
            .substream(.message(name: name, try PrimusPayload(encoding: value, coding)))
        }
    }

    /// A sequence of the messages of the stream from now on, as ``PrimusChannel/messages``. It finishes when one of the sides ends the stream.
    public var messages: EventSequence<PrimusPluginMessage> { self.calls.messages(.stream(self.number)) }

    /// Calls a closure on an executor with the messages of the stream from now on, in order and one at a time.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - callback: Called with each message. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onMessage(
        on executor: PrimusCallbackExecutor, _ callback: @escaping @Sendable (PrimusPluginMessage) -> Void
    ) -> PrimusObservation {
        self.calls.observe(
            .stream(self.number), named: "The callback of the stream \(Excerpt.of(self.name, limit: 100))", on: executor,
            PluginCalls.message, callback)
    }

    /// Ends the stream on both sides. Its sequences finish.
    public func end() {
        self.calls.driver.step { session, now, effects in session.closeStream(self.number, now: now, &effects) }
    }

    /// Sends a last message and ends the stream.
    ///
    /// - Parameter value: The message.
    /// - Throws: The errors of ``write(_:)-(Value)``. The stream ends all the same.
    public func end<Value: Encodable & Sendable>(_ value: Value) async throws(PrimusError) {
        defer { self.end() }
        try await self.write(value)
    }
}

/// A message on a channel or a stream, which isn't decoded until you ask for its value.
///
/// Decoding takes place in your task, each time you ask.
public struct PrimusPluginMessage: Sendable {
    let payload: PrimusPayload

    /// The value, of any kind that the parser can carry.
    ///
    /// - Throws: ``PrimusError/Code/decodingFailed`` if it isn't valid for the parser.
    public var value: PrimusValue {
        get throws(PrimusError) {
            do {
                return try self.payload.value()
            } catch {
                throw .decoding(error, "a value")
            }
        }
    }

    /// Decodes the value as a type of yours.
    ///
    /// - Parameter type: The type.
    /// - Returns: The decoded value.
    /// - Throws: ``PrimusError/Code/decodingFailed``, whose ``PrimusError/cause`` is the error of the decoder.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws(PrimusError) -> Value {
        do {
            return try self.payload.decode(type)
        } catch {
            throw .decoding(error, "\(type)")
        }
    }
}
