import RealtimeJSON
internal import RealtimeSystem
import PusherWire
public import RealtimeCore
internal import RealtimeTransports

/// A publisher of events, for servers and tools.
///
/// It uses the HTTP API of the service, which requires the secret of the app. Clients send client events instead, with
/// ``PusherChannel/trigger(_:_:)``.
///
/// ```swift
/// let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", cluster: "eu")
/// try await publisher.publish("price", to: "prices", data: ["value": 12])
/// ```
public struct PusherPublisher: Sendable {
    /// The endpoint of the HTTP API, without a path.
    public let endpoint: Endpoint
    let appID, key: String
    private let secret: String
    private let pathPrefix: String
    private let http: any HTTPTransport

    /// Creates a publisher for an app on a Pusher cluster.
    ///
    /// - Parameters:
    ///   - appID: The ID of the app.
    ///   - key: The key of the app.
    ///   - secret: The secret of the app.
    ///   - cluster: The name of the cluster, such as `eu`.
    ///   - http: The HTTP transport to use, or `nil` for the default transport of the platform.
    public init(appID: String, key: String, secret: String, cluster: String, http: (any HTTPTransport)? = nil) {
        let endpoint = Endpoint(scheme: "https", host: "api-\(cluster).pusher.com", port: 443)
        self.init(appID: appID, key: key, secret: secret, endpoint: endpoint, http: http)
    }

    /// Creates a publisher for an app on your own server.
    ///
    /// - Parameters:
    ///   - appID: The ID of the app.
    ///   - key: The key of the app.
    ///   - secret: The secret of the app.
    ///   - endpoint: The endpoint of the server. If it has a path, for example because of a proxy, the paths of requests begin with it. Its
    ///     query is ignored.
    ///   - http: The HTTP transport to use, or `nil` for the default transport of the platform.
    public init(appID: String, key: String, secret: String, endpoint: Endpoint, http: (any HTTPTransport)? = nil) {
        self.endpoint = Endpoint(scheme: endpoint.isSecure ? "https" : "http", host: endpoint.host, port: endpoint.port)
        self.pathPrefix = String(endpoint.path.utf8.last == UInt8(ascii: "/") ? endpoint.path.dropLast() : endpoint.path[...])
        self.appID = appID
        self.key = key
        self.secret = secret
        self.http = http ?? Transports.standard.http
    }

    // MARK: Publishing

    /// Publishes an event on a channel, and returns when the server has accepted it.
    ///
    /// This method is the same as the one for several channels, which describes the data and the errors.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channel: The name of the channel.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually that of the client that caused it.
    /// - Throws: A ``PusherError``.
    public func publish(
        _ event: String, to channel: String, data: some Encodable, except socketID: String? = nil
    ) async throws(PusherError) {
        try await self.publish(event, to: [channel], data: data, except: socketID)
    }

    /// Publishes an event on several channels, and returns when the server has accepted it.
    ///
    /// The data of an event is text, usually JSON. As in other libraries for servers, a `String` is sent unchanged, and any other value is
    /// encoded as JSON in the task that calls this method. To send JSON that you have as text, pass the text; to build JSON without a type
    /// of your own, pass a `JSONValue`. A `JSONValue` that is a string is encoded as JSON, with quotation marks.
    ///
    /// A failed request isn't retried. If the task is cancelled, the request is cancelled and the call throws; the server may have accepted
    /// the event.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of 1 to 100 channels.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually that of the client that caused it.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidEventName`` if the name of the event is invalid,
    ///   - ``PusherError/Code/invalidChannelName`` if the name of a channel is invalid, or the number of channels isn't between 1 and
    ///     100,
    ///   - ``PusherError/Code/encodingFailed`` if the data can't be encoded, with the error of the encoder as its ``PusherError/cause``,
    ///   - ``PusherError/Code/dataTooLarge`` if the data has more than 10 KiB,
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    public func publish(
        _ event: String, to channels: [String], data: some Encodable, except socketID: String? = nil
    ) async throws(PusherError) {
        if let error = EventName.validationError(event) { throw PusherError(.invalidEventName, error) }
        guard (1...100).contains(channels.count) else {
            throw PusherError(.invalidChannelName, "The number of channels must be between 1 and 100, but is \(channels.count).")
        }
        for channel in channels {
            if let error = ChannelName.validationError(channel) { throw PusherError(.invalidChannelName, error, channel: channel) }
        }
        let text: String
        do {
            text = try EventData.text(of: data)
        } catch {
            throw .encodingFailed(event, error)
        }
        guard text.utf8.count <= EventName.maximumDataSize else { throw .dataTooLarge(event, text.utf8.count) }
        var body: JSONObject = ["name": .string(event), "channels": .array(channels.map { .string($0) }), "data": .string(text)]
        if let socketID { body["socket_id"] = .string(socketID) }
        try await self.post("events", body: JSONValue.object(body).bytes)
    }

    // MARK: Authorizing

    /// Authorizes a client to subscribe to a private or presence channel.
    ///
    /// Call this method in your backend, after you have decided that the user may subscribe, and send the result to the client as JSON:
    /// it is `Encodable` in the form that all clients expect. The method only computes the signature; it sends no request.
    ///
    /// ```swift
    /// let user = PusherMember(id: "7", info: ["name": "Anna"])
    /// let authorization = try publisher.authorize(socketID: socketID, channel: channel, user: user)
    /// let body = try JSONValueEncoder().encode(authorization)
    /// ```
    ///
    /// - Parameters:
    ///   - socketID: The socket ID of the client, from the field `socket_id` of its request.
    ///   - channel: The name of the channel, from the field `channel_name` of its request.
    ///   - user: The user, who becomes a member of a presence channel. It is ignored for a private channel.
    /// - Returns: The authorization, which is valid for this channel and this connection of the client.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidSocketID`` if the socket ID doesn't consist of two numbers with a dot between them, such as `123.456`,
    ///   - ``PusherError/Code/invalidChannelName`` if the name of the channel is invalid, or the channel is public,
    ///   - ``PusherError/Code/unsupportedChannel`` if the channel is encrypted,
    ///   - ``PusherError/Code/invalidUser`` if the channel is a presence channel, and the user is `nil` or has an empty ID.
    public func authorize(socketID: String, channel: String, user: PusherMember? = nil) throws(PusherError) -> PusherChannelAuthorization {
        // Without these checks, a client could have a text signed that is valid for another channel.
        guard ChannelSignature.isSocketID(socketID) else {
            throw PusherError(.invalidSocketID, "Invalid socket ID: expected two numbers with a dot between them, such as 123.456.")
        }
        if let error = ChannelName.validationError(channel) { throw PusherError(.invalidChannelName, error, channel: channel) }
        switch ChannelName.kind(of: channel) {
        case .public:
            throw PusherError(.invalidChannelName, "\(channel) is a public channel, which needs no authorization.", channel: channel)
        case .encrypted:
            throw PusherError(
                .unsupportedChannel, "Cannot authorize \(channel): encrypted channels are not supported by this version.",
                channel: channel)
        case .presence where user?.id.isEmpty ?? true:
            throw PusherError(.invalidUser, "\(channel) is a presence channel, which requires a user with an ID.", channel: channel)
        case .private, .presence:
            let request = PusherAuthorizationRequest(channel: channel, socketID: socketID)
            let user = PresenceUser(id: user?.id ?? "", info: user?.info)
            return PusherChannelAuthorization(signing: request, user: user, key: self.key, secret: self.secret)
        }
    }

    private func post(_ path: String, body: [UInt8]) async throws(PusherError) {
        var endpoint = self.endpoint
        // The signature doesn't cover the prefix, as in other libraries for servers: a proxy may remove it.
        endpoint.target =
            self.pathPrefix
            + RequestSignature.sign(
                method: "POST", path: "/apps/\(self.appID)/\(path)", body: body, key: self.key, secret: self.secret,
                unixTime: WallClock.secondsSince1970)
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await self.http.send(
                HTTPRequest("POST", endpoint, headers: ["Content-Type": "application/json"], body: body, idleTimeout: .seconds(30)))
        } catch {
            guard error.code != .cancelled else {
                let message = "publish(_:to:data:except:) was cancelled with its task. The server may have accepted the event."
                throw PusherError(.cancelled, message, cause: error)
            }
            throw PusherError(.failed, error.message, status: error.status, cause: error)
        }
        let status = response.head.status
        guard (200...299).contains(status) else {
            let reason = response.explanation
            let hint = status == 401 || status == 403 ? " Check the app ID, the key and the secret." : ""
            let message = "\(self.endpoint.origin) rejected the event with status \(reason)\(hint)"
            throw PusherError(.rejected, message, status: status, cause: TransportError(.requestRejected, message, response: response))
        }
    }
}

extension HTTPResponse {
    /// The summary of the response, without signatures and users' data. Of a JSON object, it contains the text of `error` or `message` alone.
    fileprivate var explanation: String {
        var response = self
        if let object = try? JSONValue(parsing: self.body).object {
            response.body = Array((object["error"]?.string ?? object["message"]?.string ?? "").utf8)
        }
        return ServerError.redacted(response.summary)
    }
}
