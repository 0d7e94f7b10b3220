import RealtimeCore
import RealtimeEncoding
import RealtimeCoding
import PusherWire

/// Queries about channels and users.
extension PusherPublisher {
    /// Returns the channels that have subscribers.
    ///
    /// - Parameters:
    ///   - prefix: The beginning of the names of the channels to return, such as `presence-`; `nil` for all channels.
    ///   - attributes: The attributes to return. Services only provide ``PusherChannelAttribute/userCount``, and only if the prefix
    ///     is the prefix of presence channels.
    /// - Returns: The attributes of the channels, by the names of the channels.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``, or its response is
    ///     invalid,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    public func channels(
        prefix: String? = nil, info attributes: Set<PusherChannelAttribute> = []
    ) async throws(PusherError) -> [String: PusherChannelInfo] {
        let call = Call("channels(prefix:info:)")
        var query = PusherChannelAttribute.query(attributes)
        if let prefix { query.append(("filter_by_prefix", prefix)) }
        return try self.channels(in: try await self.send("GET", "channels", query: query, call), call)
    }

    /// Returns the attributes of a channel.
    ///
    /// - Parameters:
    ///   - name: The name of the channel.
    ///   - attributes: The attributes to return, in addition to ``PusherChannelInfo/isOccupied``. Services reject attributes that the channel
    ///     doesn't have, such as the number of users of a channel that isn't a presence channel.
    /// - Returns: The attributes. A channel without subscribers isn't occupied.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name of the channel is invalid; otherwise the
    ///   same as ``channels(prefix:info:)``.
    public func channel(
        _ name: String, info attributes: Set<PusherChannelAttribute> = []
    ) async throws(PusherError) -> PusherChannelInfo {
        try self.check(channel: name)
        let call = Call("channel(_:info:)")
        let response = try await self.send(
            "GET", "channels/\(PercentEncoding.encode(name))", query: PusherChannelAttribute.query(attributes), call)
        return try self.decode(response, call) { try PusherChannelInfo($0) }
    }

    /// Returns the users who are members of a presence channel.
    ///
    /// - Parameter channel: The name of the presence channel.
    /// - Returns: The users, without the information about them: the service doesn't provide it.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the channel isn't a presence channel;
    ///   otherwise the same as ``channels(prefix:info:)``.
    public func users(of channel: String) async throws(PusherError) -> [PusherChannelUser] {
        try self.check(channel: channel)
        guard ChannelName.kind(of: channel).isPresence else {
            throw PusherError(.invalidChannelName, "\(channel) is not a presence channel, and has no list of users.", channel: channel)
        }
        let call = Call("users(of:)")
        let response: HTTPResponse
        do throws(PusherError) {
            response = try await self.send("GET", "channels/\(PercentEncoding.encode(channel))/users", call)
        } catch {
            // Reverb knows no channel without subscribers. It answers for an unknown app with a text.
            guard error.status == 404, let body = (error.cause as? TransportError)?.response?.body,
                (try? ResponseBody(body).json()) == .object(JSONObject())
            else { throw error }
            return []
        }
        return try self.decode(response, call) { json in
            // A list in PHP whose elements don't have consecutive numbers is an object.
            guard let users = json["users"]?.array ?? json["users"]?.object?.map(\.value) else { throw PusherFrameError.missing("users") }
            return try users.map { user in
                guard let id = user["id"].flatMap(PresenceUser.text) else { throw PusherFrameError.missing("id") }
                return PusherChannelUser(id: id)
            }
        }
    }

    /// Closes all connections of a user who has signed in.
    ///
    /// The user can connect again. To prevent that, don't sign the user in again.
    ///
    /// - Parameter userID: The ID of the user.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidUser`` if the ID is empty, has more than 128 characters, or
    ///   contains characters other than letters, digits and `_ - = @ , . ;`; otherwise the same as ``channels(prefix:info:)``.
    public func terminateConnections(ofUser userID: String) async throws(PusherError) {
        try self.check(userID: userID)
        let path = "users/\(PercentEncoding.encode(userID))/terminate_connections"
        _ = try await self.post([:], to: path, Call("terminateConnections(ofUser:)"))
    }

    // MARK: Responses

    /// Returns the member `channels` of a response.
    func channels(in response: HTTPResponse, _ call: Call) throws(PusherError) -> [String: PusherChannelInfo] {
        try self.decode(response, call) { json in
            var channels: [String: PusherChannelInfo] = [:]
            // Servers in PHP send an empty array for an empty object.
            guard json["channels"]?.array?.isEmpty != true else { return channels }
            guard let members = json["channels"]?.object else { throw PusherFrameError.missing("channels") }
            for (name, value) in members { channels[name] = try PusherChannelInfo(value) }
            return channels
        }
    }

    /// Decodes the JSON of a response.
    func decode<Value>(
        _ response: HTTPResponse, _ call: Call, _ decode: (JSONValue) throws -> Value
    ) throws(PusherError) -> Value {
        do {
            return try decode(try ResponseBody(response.body).json())
        } catch let error as JSONError {
            throw self.invalidResponse(response, call, "it is not JSON", cause: error)
        } catch let error as DecodingError {
            throw self.invalidResponse(response, call, "a value is missing, or has another type than the protocol requires", cause: error)
        } catch {
            throw self.invalidResponse(response, call, "\(error)")
        }
    }

    func invalidResponse(_ response: HTTPResponse, _ call: Call, _ reason: String, cause: (any Error)? = nil) -> PusherError {
        let message = "The response of \(self.endpoint.origin) to \(call.name) is invalid: \(reason)."
        return PusherError(.failed, message, status: response.head.status, cause: cause)
    }
}

/// An attribute of a channel that a query returns.
public struct PusherChannelAttribute: RawRepresentable, Sendable, Hashable {
    /// The name of the attribute in the protocol, such as `user_count`.
    public let rawValue: String

    /// Creates an attribute by its name in the protocol, for services with attributes of their own.
    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// The number of users of a presence channel.
    public static let userCount = PusherChannelAttribute(rawValue: "user_count")
    /// The number of subscriptions of a channel that isn't a presence channel. Pusher provides it if it is enabled for the app.
    public static let subscriptionCount = PusherChannelAttribute(rawValue: "subscription_count")
    /// The cached event of a cache channel.
    public static let cache = PusherChannelAttribute(rawValue: "cache")

    /// Returns the attributes as a list for a request, or `nil` if there are none.
    static func list(_ attributes: Set<Self>) -> String? {
        attributes.isEmpty ? nil : attributes.map(\.rawValue).sorted().joined(separator: ",")
    }

    static func query(_ attributes: Set<Self>) -> [(name: String, value: String)] {
        self.list(attributes).map { [("info", $0)] } ?? []
    }
}

/// Attributes of a channel. Those that weren't requested, or that the server doesn't provide, are `nil`.
public struct PusherChannelInfo: Sendable, Hashable, Codable {
    /// Whether the channel has subscribers. Only ``PusherPublisher/channel(_:info:)`` returns it.
    public var isOccupied: Bool?
    /// The number of users of a presence channel.
    public var userCount: Int?
    /// The number of subscriptions.
    public var subscriptionCount: Int?
    /// The cached event of a cache channel; `nil` if there is none.
    public var cache: CachedEvent?

    /// Creates a value, for example for a test.
    ///
    /// - Parameters:
    ///   - isOccupied: Whether the channel has subscribers.
    ///   - userCount: The number of users of a presence channel.
    ///   - subscriptionCount: The number of subscriptions.
    ///   - cache: The cached event of a cache channel.
    public init(isOccupied: Bool? = nil, userCount: Int? = nil, subscriptionCount: Int? = nil, cache: CachedEvent? = nil) {
        self.isOccupied = isOccupied
        self.userCount = userCount
        self.subscriptionCount = subscriptionCount
        self.cache = cache
    }

    /// A cached event.
    public struct CachedEvent: Sendable, Hashable, Codable {
        /// The data of the event.
        public var data: String
        /// After how many seconds the event is no longer cached.
        public var ttl: Int?

        /// Creates a value, for example for a test.
        ///
        /// - Parameters:
        ///   - data: The data of the event.
        ///   - ttl: After how many seconds the event is no longer cached.
        public init(data: String, ttl: Int? = nil) {
            self.data = data
            self.ttl = ttl
        }
    }

    /// The names of the protocol.
    private enum CodingKeys: String, CodingKey {
        case isOccupied = "occupied"
        case userCount = "user_count"
        case subscriptionCount = "subscription_count"
        case cache
    }

    init(_ json: JSONValue) throws {
        // Servers in PHP send an empty array for an empty object.
        self = json.array?.isEmpty == true ? PusherChannelInfo() : try JSONValueDecoder().decode(Self.self, from: json)
    }

    static func list(_ json: JSONValue?) throws -> [PusherChannelInfo] {
        guard let array = json?.array else { throw PusherFrameError.missing("batch") }
        return try array.map { try PusherChannelInfo($0) }
    }
}

/// A user of a presence channel.
public struct PusherChannelUser: Sendable, Hashable, Codable, Identifiable {
    /// The ID of the user.
    public let id: String

    /// Creates a user, for example for a test.
    ///
    /// - Parameter id: The ID of the user.
    public init(id: String) {
        self.id = id
    }

    private enum CodingKeys: CodingKey {
        case id
    }

    /// Decodes a user. Some servers send the ID as a number.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard let id = PresenceUser.text(try container.decode(JSONValue.self, forKey: .id)) else {
            throw DecodingError.dataCorruptedError(forKey: .id, in: container, debugDescription: "The ID isn't a string or a number.")
        }
        self.id = id
    }
}
