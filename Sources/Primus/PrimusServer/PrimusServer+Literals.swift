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
        try self.server.validate(event)
        let arguments = try PrimusArguments(event, values: [first] + rest, in: self.server.coding)
        self.server.driver.step { _ = $0.write(.emitter(.event(name: event, arguments, id: nil)), to: self.id, &$2) }
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
