import RealtimeCoding
import PusherWire
import RealtimeCore

/// Publishing with all options of the HTTP API.
extension PusherPublisher {
    /// Publishes an event on a channel, and returns the requested attributes of the channel.
    ///
    /// This method is the same as the one for several channels, which describes the errors.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    ///   - attributes: The attributes of the channel to return.
    ///   - tags: The values of tags by their names.
    /// - Returns: The attributes at the time of the event.
    /// - Throws: A ``PusherError``.
    @discardableResult
    public func trigger(
        _ event: String, on channel: String, data: some Encodable, except socketID: String? = nil,
        info attributes: Set<PusherChannelAttribute> = [], tags: [String: String] = [:]
    ) async throws(PusherError) -> PusherChannelInfo {
        let infos = try await self.trigger(event, on: [channel], data: data, except: socketID, info: attributes, tags: tags)
        return infos[channel] ?? PusherChannelInfo()
    }

    /// Publishes an event on several channels, and returns the requested attributes of the channels.
    ///
    /// Without attributes, it does the same as `publish(_:to:data:except:)`.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of the channels, by default at most 100; see ``channelLimit``.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    ///   - attributes: The attributes of the channels to return.
    ///   - tags: The values of tags by their names, for the filters of subscribers; see ``PusherClient/subscribe(_:filter:)``. The Pusher
    ///     service and most other servers ignore them. They aren't encrypted.
    /// - Returns: The attributes at the time of the event, by the names of the channels; empty if no attribute is requested.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidEventName`` if the name of the event is invalid,
    ///   - ``PusherError/Code/invalidChannelName`` if the name of a channel is invalid, or the number of channels isn't between 1 and the
    ///     ``channelLimit``,
    ///   - ``PusherError/Code/encodingFailed`` if the data can't be encoded, with the error of the encoder as its ``PusherError/cause``,
    ///   - ``PusherError/Code/dataTooLarge`` if the data exceeds the ``eventDataLimit``,
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``, or its response is
    ///     invalid,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    @discardableResult
    public func trigger(
        _ event: String, on channels: [String], data: some Encodable, except socketID: String? = nil,
        info attributes: Set<PusherChannelAttribute> = [], tags: [String: String] = [:]
    ) async throws(PusherError) -> [String: PusherChannelInfo] {
        let call = Call("trigger(_:on:data:except:info:tags:)", about: "the event")
        var body = try self.publication(event, channels, data, except: socketID)
        body["info"] = PusherChannelAttribute.list(attributes).map { .string($0) }
        body["tags"] = Self.json(tags)
        let response = try await self.post(body, to: "events", call)
        return attributes.isEmpty ? [:] : try self.channels(in: response, call)
    }

    /// Publishes several events with one request, and returns when the server has accepted them.
    ///
    /// - Parameter events: At least one event, and at most ``batchLimit``, by default 10.
    /// - Returns: The attributes of the channels that the events request, one value for each event in the same order. A value is empty if its
    ///   event requests none.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidBatch`` if the number of events isn't between 1 and the ``batchLimit``,
    ///   - ``PusherError/Code/invalidEventName``, ``PusherError/Code/invalidChannelName`` or ``PusherError/Code/dataTooLarge`` if an event is
    ///     invalid,
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``, or its response is
    ///     invalid,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    @discardableResult
    public func triggerBatch(_ events: [PusherBatchEvent]) async throws(PusherError) -> [PusherChannelInfo] {
        let limit = self.batchLimit
        guard !events.isEmpty, events.count <= limit else {
            throw PusherError(.invalidBatch, "The number of events in a batch must be between 1 and \(limit), but is \(events.count).")
        }
        var batch: [JSONValue] = []
        for event in events { batch.append(.object(try event.json(for: self))) }
        let call = Call("triggerBatch(_:)", about: "the events")
        let response = try await self.post(["batch": .array(batch)], to: "batch_events", call)
        guard events.contains(where: { !$0.info.isEmpty }) else { return events.map { _ in PusherChannelInfo() } }
        let infos = try self.decode(response, call) { try PusherChannelInfo.list($0["batch"]) }
        guard infos.count == events.count else {
            throw self.invalidResponse(response, call, "it has \(infos.count) elements for \(events.count) events")
        }
        return infos
    }

    /// Publishes an event to all connections of a user who has signed in.
    ///
    /// - Parameters:
    ///   - userID: The ID of the user.
    ///   - event: The name of the event.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidUser`` if the ID is empty, has more than 128 characters, or contains characters other than letters,
    ///     digits and `_ - = @ , . ;`,
    ///   - ``PusherError/Code/invalidEventName`` if the name of the event is invalid,
    ///   - ``PusherError/Code/encodingFailed`` if the data can't be encoded, with the error of the encoder as its ``PusherError/cause``,
    ///   - ``PusherError/Code/dataTooLarge`` if the data exceeds the ``eventDataLimit``,
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    public func sendToUser(_ userID: String, _ event: String, data: some Encodable) async throws(PusherError) {
        try self.check(userID: userID)
        let channels = [UserID.channel(of: userID)]
        let body = Self.publication(event, channels: channels, data: try self.checked(try Self.text(of: data, event), for: channels, event))
        _ = try await self.post(body, to: "events", Call("sendToUser(_:_:data:)", about: "the event"))
    }

    /// Returns the tags of an event in the order of their names, or `nil` if it has none.
    fileprivate static func json(_ tags: [String: String]) -> JSONValue? {
        tags.isEmpty ? nil : .object(JSONObject(tags.keys.sorted().map { ($0, .string(tags[$0] ?? "")) }))
    }

    func check(userID: String) throws(PusherError) {
        guard let error = UserID.validationError(userID), self.validatesChannelNames || userID.isEmpty else { return }
        throw PusherError(.invalidUser, error)
    }
}

/// An event for ``PusherPublisher/triggerBatch(_:)``.
public struct PusherBatchEvent: Sendable, Hashable {
    /// The name of the event.
    public var name: String
    /// The name of the channel.
    public var channel: String
    /// The data of the event, usually JSON.
    public var data: String
    /// The ID of a connection that doesn't receive the event, or `nil`.
    public var excludedSocketID: String?
    /// The attributes of the channel to return.
    public var info: Set<PusherChannelAttribute>
    /// The values of tags by their names, for the filters of subscribers; see ``PusherClient/subscribe(_:filter:)``.
    public var tags: [String: String]

    /// Creates an event.
    ///
    /// - Parameters:
    ///   - name: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    ///   - attributes: The attributes of the channel to return.
    ///   - tags: The values of tags by their names.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/encodingFailed`` if the data can't be encoded. The other values are
    ///   checked when the event is published.
    public init(
        _ name: String, on channel: String, data: some Encodable, except socketID: String? = nil,
        info attributes: Set<PusherChannelAttribute> = [], tags: [String: String] = [:]
    ) throws(PusherError) {
        self.name = name
        self.channel = channel
        self.data = try PusherPublisher.text(of: data, name)
        self.excludedSocketID = socketID
        self.info = attributes
        self.tags = tags
    }

    fileprivate func json(for publisher: PusherPublisher) throws(PusherError) -> JSONObject {
        try publisher.check(channel: self.channel)
        let data = try publisher.checked(self.data, for: [self.channel], self.name)
        var json: JSONObject = ["name": .string(self.name), "channel": .string(self.channel), "data": .string(data)]
        json["socket_id"] = self.excludedSocketID.map { .string($0) }
        json["info"] = PusherChannelAttribute.list(self.info).map { .string($0) }
        json["tags"] = PusherPublisher.json(self.tags)
        return json
    }
}
