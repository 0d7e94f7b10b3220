public import PrimusWire

// Literals with values of different types, such as `["celsius": 21.5, "when": "now"]`, have no type of their own that is `Encodable`. The compiler
// takes the methods with several arguments only if no other one fits.

extension PrimusServer {
    /// Writes a literal or another value of any kind that the parser can carry to all clients.
    ///
    /// - Parameter value: The message.
    /// - Throws: `PrimusParserError` if the parser can't carry the value.
    public func write(_ value: PrimusValue) throws {
        let value: some Encodable = value
        try self.write(value)
    }

    /// Sends an event of primus-emitter to all clients, with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `send(_:_:)`.
    @_disfavoredOverload
    public func send(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) throws {
        self.send(event, try self.sparkContext.arguments(event, values: [first] + rest))
    }

    /// Sends an event of primus-emit to all clients, with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `emit(_:_:)`.
    @_disfavoredOverload
    public func emit(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) throws {
        try self.sparkContext.validateEmit(event)
        self.emit(event, try PrimusArguments(event, values: [first] + rest, in: self.sparkContext.coding))
    }
}

extension PrimusSpark {
    /// Writes a literal or another value of any kind that the parser can carry to the client.
    ///
    /// - Parameter value: The message.
    /// - Returns: Whether the client was connected, and no transform has dropped the message.
    /// - Throws: `PrimusParserError` if the parser can't carry the value.
    @discardableResult
    public func write(_ value: PrimusValue) throws -> Bool {
        let value: some Encodable = value
        return try self.write(value)
    }

    /// Sends an event of primus-emitter with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `send(_:_:)`.
    @_disfavoredOverload
    public func send(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) throws {
        let arguments = try self.server.arguments(event, values: [first] + rest)
        self.server.driver.step { _ = $0.write(.emitter(.event(name: event, arguments, id: nil)), to: self.id, &$2) }
    }

    /// Sends an event of primus-emitter with literals or other values of any kind that the parser can carry, and waits for the client's
    /// acknowledgement.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - limit: How long to wait. The default is 30 seconds.
    /// - Returns: The arguments of the acknowledgement.
    /// - Throws: The errors of `call(_:_:within:)`.
    @_disfavoredOverload
    public func call(
        _ event: String, _ first: PrimusValue, _ rest: PrimusValue..., within limit: Duration = .seconds(30)
    ) async throws -> PrimusEventArguments {
        try await self.call(event, try self.server.arguments(event, values: [first] + rest), limit)
    }

    /// Sends an event of primus-emit with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `emit(_:_:)`.
    @_disfavoredOverload
    public func emit(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) throws {
        try self.server.validateEmit(event)
        self.emit(event, try PrimusArguments(event, values: [first] + rest, in: self.server.coding))
    }

    /// Sends a request of primus-responder that is a literal or another value of any kind that the parser can carry, and waits for the response.
    ///
    /// - Parameters:
    ///   - value: The request.
    ///   - type: The type of the response.
    ///   - limit: How long to wait. The default is 30 seconds.
    /// - Returns: The response.
    /// - Throws: The errors of `request(_:as:within:)`.
    public func request<Response: Decodable>(
        _ value: PrimusValue, as type: Response.Type = Response.self, within limit: Duration = .seconds(30)
    ) async throws -> Response {
        let value: some Encodable = value
        return try await self.request(value, as: type, within: limit)
    }

    /// Sends a literal or another value of any kind that the parser can carry on a stream of substream.
    ///
    /// - Parameters:
    ///   - value: The message.
    ///   - name: The name of the stream.
    /// - Throws: The errors of `write(_:toSubstream:)`.
    public func write(_ value: PrimusValue, toSubstream name: String) throws {
        let value: some Encodable = value
        try self.write(value, toSubstream: name)
    }

    /// Writes a literal or another value of any kind that the parser can carry as the last message, and ends the connection.
    ///
    /// - Parameters:
    ///   - value: The message.
    ///   - reconnects: Whether the client may reconnect.
    /// - Throws: The errors of `end(_:reconnects:)`. The connection isn't ended then.
    public func end(_ value: PrimusValue, reconnects: Bool = false) throws {
        let value: some Encodable = value
        try self.end(value, reconnects: reconnects)
    }
}

extension PrimusSparkChannel {
    /// Writes a literal or another value of any kind that the parser can carry to the client on the channel.
    ///
    /// - Parameter value: The message.
    /// - Throws: `PrimusParserError` if the parser can't carry the value.
    public func write(_ value: PrimusValue) throws {
        let value: some Encodable = value
        try self.write(value)
    }

    /// Sends an event of primus-emitter on the channel, with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `send(_:_:)`.
    @_disfavoredOverload
    public func send(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) throws {
        self.send(event, try self.spark.server.arguments(event, values: [first] + rest))
    }

    /// Sends an event of primus-emitter on the channel with literals or other values of any kind that the parser can carry, and waits for the
    /// client's acknowledgement.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - limit: How long to wait. The default is 30 seconds.
    /// - Returns: The arguments of the acknowledgement.
    /// - Throws: The errors of `call(_:_:within:)`.
    @_disfavoredOverload
    public func call(
        _ event: String, _ first: PrimusValue, _ rest: PrimusValue..., within limit: Duration = .seconds(30)
    ) async throws -> PrimusEventArguments {
        try await self.call(event, try self.spark.server.arguments(event, values: [first] + rest), limit)
    }
}

extension PrimusServerCall {
    /// Acknowledges the event with literals or other values of any kind that the parser can carry. Does nothing if the client doesn't wait for it.
    ///
    /// - Parameters:
    ///   - first: The first argument of the acknowledgement.
    ///   - rest: The other arguments.
    /// - Throws: `PrimusParserError` if the parser can't carry a value.
    @_disfavoredOverload
    public func acknowledge(_ first: PrimusValue, _ rest: PrimusValue...) throws { try self.acknowledge(values: [first] + rest) }
}
