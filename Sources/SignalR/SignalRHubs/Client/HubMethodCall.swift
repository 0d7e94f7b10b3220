package import SignalRWire

/// A call of a method of the client by the server.
public struct HubMethodCall: Sendable {
    /// The name of the method.
    public let target: String
    package let payload: HubPayload
    package let coder: HubValueCoder

    package init(target: String, payload: HubPayload, coder: HubValueCoder) {
        self.target = target
        self.payload = payload
        self.coder = coder
    }

    /// Decodes the arguments. There may be more of them than types.
    ///
    /// - Parameter types: The types of the arguments.
    /// - Throws: ``HubError/Code/decodingFailed`` if an argument is missing or has another type.
    public func decode<each Value: Decodable>(_ types: repeat (each Value).Type) throws(HubError) -> (repeat each Value) {
        do {
            return try self.coder.decodeArguments(self.payload).decode(repeat each types, ignoresMore: true)
        } catch {
            throw HubError(
                .decodingFailed, "The server called \(self.target) with unexpected arguments. \(error)",
                cause: HubValueError.cause(of: error))
        }
    }
}
