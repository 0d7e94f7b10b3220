public import RealtimeCoding

extension PusherEchoChannel {
    /// Sends a client event with a literal or another JSON value as its data, as `whisper(_:_:)` does.
    ///
    /// - Parameters:
    ///   - event: The name of the event without `client-`.
    ///   - data: The data of the event; at most 10 KiB.
    /// - Throws: A ``PusherError``.
    @_disfavoredOverload
    public func whisper(_ event: String, _ data: JSONValue) throws(PusherError) {
        try self.channel.trigger("client-\(event)", data)
    }
}
