public import RealtimeCoding

// Literals with values of different types, such as `["user": "anna", "age": 7]`, have no type of their own that is `Encodable`.
extension PusherServer {
    /// Publishes an event to the subscribers of a channel, with a literal or another JSON value as its data.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    /// - Throws: An `EncodingError`.
    public func publish(_ event: String, to channel: String, data: JSONValue, except socketID: String? = nil) throws {
        let value: some Encodable = data
        try self.publish(event, to: channel, data: value, except: socketID)
    }

    /// Publishes an event to the subscribers of several channels, with a literal or another JSON value as its data.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of the channels.
    ///   - data: The data of the event.
    ///   - socketID: The socket ID of a connection that doesn't receive the event, or `nil` for none.
    /// - Throws: An `EncodingError`.
    public func publish(_ event: String, to channels: [String], data: JSONValue, except socketID: String? = nil) throws {
        let value: some Encodable = data
        try self.publish(event, to: channels, data: value, except: socketID)
    }

    /// Publishes an event to a user, on all connections that are signed in as the user, with a literal or another JSON value as its data.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - userID: The ID of the user.
    ///   - data: The data of the event.
    /// - Throws: An `EncodingError`.
    public func publish(_ event: String, toUser userID: String, data: JSONValue) throws {
        let value: some Encodable = data
        try self.publish(event, toUser: userID, data: value)
    }
}
