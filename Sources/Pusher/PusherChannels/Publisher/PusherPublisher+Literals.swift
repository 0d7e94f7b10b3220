public import RealtimeCoding

// Literals with values of different types, such as `["user": "anna", "age": 7]`, have no type of their own that is `Encodable`.
extension PusherPublisher {
    /// Publishes an event on a channel with a literal or another JSON value as its data, as `publish(_:to:data:except:)` does.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    /// - Throws: A ``PusherError``.
    public func publish(
        _ event: String, to channel: String, data: JSONValue, except socketID: String? = nil
    ) async throws(PusherError) {
        try await self.publish(event, to: [channel], data: data, except: socketID)
    }

    /// Publishes an event on several channels with a literal or another JSON value as its data, as `publish(_:to:data:except:)` does.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of 1 to 100 channels.
    ///   - data: The data of the event; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    /// - Throws: A ``PusherError``.
    public func publish(
        _ event: String, to channels: [String], data: JSONValue, except socketID: String? = nil
    ) async throws(PusherError) {
        let value: some Encodable = data
        try await self.publish(event, to: channels, data: value, except: socketID)
    }

    /// Publishes an event on a channel with a literal or another JSON value as its data, and returns the requested attributes of the channel.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    ///   - attributes: The attributes of the channel to return.
    ///   - tags: The values of tags by their names.
    /// - Returns: The attributes at the time of the event.
    /// - Throws: A ``PusherError``.
    @discardableResult
    public func trigger(
        _ event: String, on channel: String, data: JSONValue, except socketID: String? = nil,
        info attributes: Set<PusherChannelAttribute> = [], tags: [String: String] = [:]
    ) async throws(PusherError) -> PusherChannelInfo {
        let value: some Encodable = data
        return try await self.trigger(event, on: channel, data: value, except: socketID, info: attributes, tags: tags)
    }

    /// Publishes an event on several channels, with a literal or another JSON value as its data, and returns the requested attributes of the
    /// channels.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of the channels, by default at most 100; see ``channelLimit``.
    ///   - data: The data of the event; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    ///   - attributes: The attributes of the channels to return.
    ///   - tags: The values of tags by their names.
    /// - Returns: The attributes at the time of the event, by the names of the channels; empty if no attribute is requested.
    /// - Throws: A ``PusherError``.
    @discardableResult
    public func trigger(
        _ event: String, on channels: [String], data: JSONValue, except socketID: String? = nil,
        info attributes: Set<PusherChannelAttribute> = [], tags: [String: String] = [:]
    ) async throws(PusherError) -> [String: PusherChannelInfo] {
        let value: some Encodable = data
        return try await self.trigger(event, on: channels, data: value, except: socketID, info: attributes, tags: tags)
    }

    /// Publishes an event to all connections of a user, with a literal or another JSON value as its data.
    ///
    /// - Parameters:
    ///   - userID: The ID of the user.
    ///   - event: The name of the event.
    ///   - data: The data of the event; at most 10 KiB.
    /// - Throws: A ``PusherError``.
    public func sendToUser(_ userID: String, _ event: String, data: JSONValue) async throws(PusherError) {
        let value: some Encodable = data
        try await self.sendToUser(userID, event, data: value)
    }
}

extension PusherBatchEvent {
    /// Creates an event with a literal or another JSON value as its data.
    ///
    /// - Parameters:
    ///   - name: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event.
    ///   - socketID: The ID of a connection that doesn't receive the event.
    ///   - attributes: The attributes of the channel to return.
    ///   - tags: The values of tags by their names.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/encodingFailed``.
    public init(
        _ name: String, on channel: String, data: JSONValue, except socketID: String? = nil,
        info attributes: Set<PusherChannelAttribute> = [], tags: [String: String] = [:]
    ) throws(PusherError) {
        let value: some Encodable = data
        try self.init(name, on: channel, data: value, except: socketID, info: attributes, tags: tags)
    }
}
