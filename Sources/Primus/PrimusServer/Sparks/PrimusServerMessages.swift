public import PrimusWire
public import RealtimeCore

/// A message that a server received from a client.
public struct PrimusServerMessage: Sendable {
    /// The client.
    public let spark: PrimusSpark
    /// The packet, before it was decoded.
    public let packet: TransportMessage
    /// The value, if a transform of the application has seen it.
    private let transformed: PrimusValue?

    init(_ spark: PrimusSpark, _ packet: TransportMessage, transformed: PrimusValue? = nil) {
        (self.spark, self.packet, self.transformed) = (spark, packet, transformed)
    }

    /// Decodes the message.
    ///
    /// - Parameter type: The type.
    /// - Returns: The decoded message.
    /// - Throws: `DecodingError`, `PrimusParserError`, or the error of the type's own `init(from:)`.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
        if let transformed { return try transformed.decode(as: type) }
        return try self.spark.server.coding.decode(type, of: self.packet)
    }

    /// The message as a value.
    ///
    /// - Throws: `PrimusParserError` if the packet isn't valid for the parser.
    public var value: PrimusValue { get throws { try self.transformed ?? self.spark.server.coding.value(of: self.packet) } }
}

/// An event that a server received from a client, of primus-emitter or primus-emit.
public struct PrimusServerCall: Sendable {
    /// The client.
    public let spark: PrimusSpark
    /// The name of the event.
    public let event: String
    /// The channel of primus-multiplex on which the event arrived; `nil` for none.
    public let channel: PrimusSparkChannel?
    /// The arguments.
    public let arguments: PrimusEventArguments
    let acknowledgement: Int64?

    /// Whether the client waits for an acknowledgement.
    public var expectsAcknowledgement: Bool { self.acknowledgement != nil }

    /// Acknowledges the event. Does nothing if the client doesn't wait for it.
    ///
    /// - Parameter values: The arguments of the acknowledgement.
    /// - Throws: `PrimusParserError` if the parser can't carry a value, `EncodingError`, or the error of a value's own `encode(to:)`.
    public func acknowledge<each Value: Encodable>(_ values: repeat each Value) throws {
        guard let acknowledgement else { return }
        self.send(try PrimusArguments(nil, repeat each values, in: self.spark.server.coding), acknowledgement)
    }

    /// Acknowledges the event with values whose number isn't known to the compiler; see ``acknowledge(_:)``.
    package func acknowledge(values: [PrimusValue]) throws {
        guard let acknowledgement else { return }
        self.send(try PrimusArguments(nil, values: values, in: self.spark.server.coding), acknowledgement)
    }

    private func send(_ arguments: PrimusArguments, _ acknowledgement: Int64) {
        let server = self.spark.server
        let packet = PrimusPluginPacket.emitter(.acknowledgement(id: acknowledgement, arguments))
        if let channel {
            let payload = PrimusPluginWriter(server.coding).payload(packet)
            server.driver.step { _ = $0.write(.multiplex(.message(channel.address, payload)), to: self.spark.id, &$2) }
        } else {
            server.driver.step { _ = $0.write(packet, to: self.spark.id, &$2) }
        }
    }
}

/// A client's membership of a channel of primus-multiplex.
public struct PrimusSparkChannel: Sendable {
    /// The client.
    public let spark: PrimusSpark
    let address: MultiplexAddress

    /// The name of the channel.
    public var name: String { self.address.channel }

    /// Writes a message to the client on the channel.
    ///
    /// - Parameter value: The message.
    /// - Throws: `PrimusParserError` if the parser can't carry the value, `EncodingError`, or the error of the value's own `encode(to:)`.
    public func write(_ value: some Encodable) throws {
        let payload = try PrimusPayload(encoding: value, self.spark.server.coding)
        self.spark.server.driver.step { _ = $0.write(.multiplex(.message(self.address, payload)), to: self.spark.id, &$2) }
    }

    /// Sends an event of primus-emitter on the channel.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    /// - Throws: ``PrimusServerError`` if the plugin is switched off or the name is reserved, or the errors of ``write(_:)-(Encodable)``.
    public func send<each Argument: Encodable>(_ event: String, _ arguments: repeat each Argument) throws {
        self.send(event, try self.spark.server.arguments(event, repeat each arguments))
    }

    func send(_ event: String, _ arguments: PrimusArguments) {
        let server = self.spark.server
        let payload = PrimusPluginWriter(server.coding).payload(.emitter(.event(name: event, arguments, id: nil)))
        server.driver.step { _ = $0.write(.multiplex(.message(self.address, payload)), to: self.spark.id, &$2) }
    }

    /// Sends an event of primus-emitter on the channel, and waits for the client's acknowledgement.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    ///   - limit: How long to wait. The default is 30 seconds.
    /// - Returns: The arguments of the acknowledgement.
    /// - Throws: ``PrimusServerError`` if the client leaves the channel, disconnects or doesn't answer in time, or the task is cancelled, and the
    ///   errors of ``send(_:_:)``.
    public func call<each Argument: Encodable>(
        _ event: String, _ arguments: repeat each Argument, within limit: Duration = .seconds(30)
    ) async throws -> PrimusEventArguments {
        try await self.call(event, try self.spark.server.arguments(event, repeat each arguments), limit)
    }

    func call(_ event: String, _ arguments: PrimusArguments, _ limit: Duration) async throws -> PrimusEventArguments {
        if Task.isCancelled { throw PrimusServerError.cancelled }
        let reply = try await self.spark.server.driver.awaitResult(limit: limit) { machine, waiter, _, effects in
            machine.call(event, arguments, on: self.spark.id, channel: self.address, waiter, &effects)
        }
        return PrimusEventArguments(arguments: PrimusArguments(acknowledgement: reply))
    }

    /// Ends the client's membership, which is reported as ``PrimusChannelEvent/left(_:)``. The client doesn't join again.
    public func end() { self.spark.server.driver.step { $0.endChannel(self.address, of: self.spark.id, &$2) } }
}

/// An event on a channel of primus-multiplex.
public enum PrimusChannelEvent: Sendable {
    /// A client joined the channel.
    case joined(PrimusSparkChannel)
    /// A client sent a message on the channel.
    case message(PrimusSparkChannel, PrimusServerPayload)
    /// A client left the channel, or disconnected.
    case left(PrimusSparkChannel)
}

/// A value that a client sent in a packet of a plugin.
public struct PrimusServerPayload: Sendable {
    let payload: PrimusPayload

    /// Decodes the value.
    ///
    /// - Parameter type: The type.
    /// - Returns: The decoded value.
    /// - Throws: `DecodingError`, `PrimusParserError`, or the error of the type's own `init(from:)`.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value { try self.payload.decode(type) }

    /// The value without a type.
    ///
    /// - Throws: `PrimusParserError` for a value that exceeds the limits.
    public var value: PrimusValue { get throws { try self.payload.value() } }
}
