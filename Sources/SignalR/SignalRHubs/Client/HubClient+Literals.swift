public import RealtimeCoding
import SignalRWire

// Literals with values of different types, such as `["user": "anna", "age": 7]`, have no type of their own that is `Encodable`. The compiler takes
// these methods only if no other one fits, so that all other calls are those of before.
extension HubClient {
    /// Calls a method with literals or other JSON values, and waits for its result.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - type: The type of the result.
    ///   - limit: The maximum time to wait; `nil` for ``HubConfiguration/callTimeLimit``.
    /// - Returns: The result.
    /// - Throws: The errors of `invoke(_:_:as:within:)`.
    @_disfavoredOverload
    public func invoke<Value: Decodable>(
        _ target: String, _ first: JSONValue, _ rest: JSONValue..., as type: Value.Type = Value.self, within limit: Duration? = nil
    ) async throws(HubError) -> Value {
        let arguments = try self.payload([first] + rest, of: target)
        return try self.decode(type, from: try await self.invoke(target, arguments, within: limit), of: target)
    }

    /// Calls a method with literals or other JSON values, and waits for its end. A result is ignored.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - limit: The maximum time to wait; `nil` for ``HubConfiguration/callTimeLimit``.
    /// - Throws: The errors of `invoke(_:_:within:)`.
    @_disfavoredOverload
    public func invoke(_ target: String, _ first: JSONValue, _ rest: JSONValue..., within limit: Duration? = nil) async throws(HubError) {
        _ = try await self.invoke(target, try self.payload([first] + rest, of: target), within: limit)
    }

    /// Calls a method with literals or other JSON values, without waiting for its end.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    /// - Throws: The errors of `send(_:_:)`.
    @_disfavoredOverload
    public func send(_ target: String, _ first: JSONValue, _ rest: JSONValue...) async throws(HubError) {
        try await self.send(target, try self.payload([first] + rest, of: target))
    }

    /// Calls a method that returns a stream, with literals or other JSON values.
    ///
    /// - Parameters:
    ///   - target: The name of the method.
    ///   - first: The first argument.
    ///   - rest: The other arguments.
    ///   - type: The type of the items.
    /// - Returns: The stream, whose items are buffered from now on. Releasing its iterator ends it.
    /// - Throws: The errors of `stream(_:_:of:)`.
    @_disfavoredOverload
    public func stream<Element: Decodable & SendableMetatype>(
        _ target: String, _ first: JSONValue, _ rest: JSONValue..., of type: Element.Type = Element.self
    ) throws(HubError) -> HubStreamResult<Element> {
        let arguments = try self.payload([first] + rest, of: target)
        return try self.stream(target, arguments) { [coder] in try coder.decode(Element.self, from: $0) }
    }

    private func payload(_ arguments: [JSONValue], of target: String) throws(HubError) -> HubPayload {
        do {
            return try self.coder.arguments(of: arguments)
        } catch {
            throw .encoding(error, target)
        }
    }
}
