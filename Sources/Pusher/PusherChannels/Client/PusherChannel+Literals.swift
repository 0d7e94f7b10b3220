public import RealtimeCoding

extension PusherChannel {
    /// Sends a client event with a literal or another JSON value as its data, as `trigger(_:_:)` does.
    ///
    /// - Parameters:
    ///   - event: The name of the event, which must start with `client-`.
    ///   - data: The data of the event; at most 10 KiB.
    /// - Throws: A ``PusherError``.
    public func trigger(_ event: String, _ data: JSONValue) throws(PusherError) {
        let value: some Encodable = data
        try self.trigger(event, value)
    }
}
