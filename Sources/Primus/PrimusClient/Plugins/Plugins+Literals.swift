public import PrimusWire

// Literals with values of different types, such as `["celsius": 21.5, "when": "now"]`, have no type of their own that is `Encodable`. The compiler
// takes the methods with several arguments only if no other one fits.

extension PrimusEmitter {
    /// Sends an event without an acknowledgement, with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `send(_:_:)`.
    @_disfavoredOverload
    public func send(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) async throws(PrimusError) {
        try await self.send(event, values: [first] + rest)
    }

    /// Sends an event and waits for its acknowledgement, with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - type: The type of the acknowledgement's first argument.
    ///   - limit: The maximum time to wait; `nil`, the default, to wait as long as the connection lasts.
    /// - Returns: The first argument of the acknowledgement.
    /// - Throws: The errors of `send(_:_:as:within:)`.
    @_disfavoredOverload
    public func send<Value: Decodable>(
        _ event: String, _ first: PrimusValue, _ rest: PrimusValue..., as type: Value.Type = Value.self, within limit: Duration? = nil
    ) async throws(PrimusError) -> Value {
        let arguments = try await self.arguments(acknowledging: event, values: [first] + rest, within: limit)
        return try Self.firstArgument(of: arguments, event, as: type)
    }
}

extension PrimusEmits {
    /// Sends an event with literals or other values of any kind that the parser can carry.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `send(_:_:)`.
    @_disfavoredOverload
    public func send(_ event: String, _ first: PrimusValue, _ rest: PrimusValue...) async throws(PrimusError) {
        try await self.send(event, values: [first] + rest)
    }
}

extension PrimusEmitterEvent {
    /// Answers the event with an acknowledgement of literals or other values of any kind that the parser can carry, without waiting.
    ///
    /// - Parameters:
    ///   - first: The first argument of the acknowledgement.
    ///   - rest: The other arguments.
    /// - Returns: Whether the acknowledgement was sent.
    /// - Throws: ``PrimusError/Code/encodingFailed``. The event can be acknowledged with other values then.
    @_disfavoredOverload
    @discardableResult
    public func acknowledge(_ first: PrimusValue, _ rest: PrimusValue...) throws(PrimusError) -> Bool {
        try self.acknowledge(values: [first] + rest)
    }
}

extension PrimusResponderRequest {
    /// Sends a literal or another value of any kind that the parser can carry as the response, without waiting.
    ///
    /// - Parameter value: The response.
    /// - Returns: Whether the response was sent.
    /// - Throws: ``PrimusError/Code/encodingFailed``. The request can be answered with another value then.
    @discardableResult
    public func respond(_ value: PrimusValue) throws(PrimusError) -> Bool {
        let value: some Encodable = value
        return try self.respond(value)
    }
}

extension PrimusChannel {
    /// Sends a literal or another value of any kind that the parser can carry to the server's side of the channel.
    ///
    /// - Parameter value: The message.
    /// - Throws: The errors of `write(_:)`.
    public func write(_ value: PrimusValue) async throws(PrimusError) {
        let value: some Encodable & Sendable = value
        try await self.write(value)
    }
}

extension PrimusSubstream {
    /// Sends a literal or another value of any kind that the parser can carry on the stream.
    ///
    /// - Parameter value: The message.
    /// - Throws: The errors of `write(_:)`.
    public func write(_ value: PrimusValue) async throws(PrimusError) {
        let value: some Encodable & Sendable = value
        try await self.write(value)
    }
}

extension PrimusConnection {
    /// Sends a request with primus-responder that is a literal or another value of any kind that the parser can carry, and waits for the response.
    ///
    /// - Parameters:
    ///   - value: The request.
    ///   - type: The type of the response.
    ///   - limit: The maximum time to wait; `nil`, the default, to wait as long as the connection lasts.
    /// - Returns: The response.
    /// - Throws: The errors of `request(_:as:within:)`.
    public func request<Value: Decodable>(
        _ value: PrimusValue, as type: Value.Type = Value.self, within limit: Duration? = nil
    ) async throws(PrimusError) -> Value {
        let value: some Encodable & Sendable = value
        return try await self.request(value, as: type, within: limit)
    }

    /// Sends a literal or another value of any kind that the parser can carry as the last message, and disconnects.
    ///
    /// - Parameter value: The message.
    /// - Throws: The reason why the message wasn't sent. The client is ended in any case.
    public func end(_ value: PrimusValue) async throws(PrimusError) {
        let value: some Encodable & Sendable = value
        try await self.end(value)
    }
}
