import RealtimeCoding
internal import RealtimeSystem
import PusherWire
public import RealtimeCore
internal import RealtimeTransports

/// A client of the HTTP API, for servers and tools: it publishes events, queries channels, and signs for clients.
///
/// The HTTP API requires the secret of the app. Clients send client events instead, with ``PusherChannel/trigger(_:_:)-(_,Encodable)``.
///
/// ```swift
/// let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", cluster: "eu")
/// try await publisher.publish("price", to: "prices", data: ["value": 12])
/// let rooms = try await publisher.channels(prefix: "presence-", info: [.userCount])
/// ```
/// A failed request isn't retried, except that the transport may repeat a query; see `HTTPRequest.isRepeatable`. If the task of a call is
/// cancelled, the request is cancelled and the call throws; the server may have performed it.
public struct PusherPublisher: Sendable {
    /// The endpoint of the HTTP API, without a path.
    public let endpoint: Endpoint
    let appID, key: String
    let secret: String
    let encryptionMasterKey: String?
    /// The maximum size of the data of an event, in bytes, after its encryption on an encrypted channel. The default is the limit of the
    /// Pusher service, 10 KiB: about 7,600 bytes on an encrypted channel. Increase it for a server of your own whose limit is larger.
    public var eventDataLimit = EventName.maximumDataSize
    /// The maximum length of the name of an event, in bytes. The default is the limit of the Pusher service, 200.
    public var eventNameLimit = EventName.maximumLength
    /// The maximum number of channels on which an event is published with one request. The default is the limit of the Pusher service, 100.
    public var channelLimit = PublicationLimit.channels
    /// The maximum number of events that ``triggerBatch(_:)`` publishes. The default is the limit of the Pusher service, 10.
    public var batchLimit = PublicationLimit.events
    /// Whether the publisher checks the names of channels and the IDs of users, with the rules of the Pusher service. The default is `true`.
    ///
    /// Set it to `false` for a server that allows longer names, or other characters than letters, digits and `_-=@,.;`. A name must not be
    /// empty in any case.
    ///
    /// - Important: With `false`, authorize only names that your app uses: the signature for `private-chat:1` is also valid for `private-chat`
    ///   with the channel data `1`.
    public var validatesChannelNames = true
    private let pathPrefix: String
    private let http: any HTTPTransport

    /// Creates a publisher for an app on a Pusher cluster.
    ///
    /// - Parameters:
    ///   - appID: The ID of the app.
    ///   - key: The key of the app.
    ///   - secret: The secret of the app.
    ///   - cluster: The name of the cluster, such as `eu`.
    ///   - encryptionMasterKey: The key for encrypted channels, 32 bytes in Base64; `nil` if the app has none.
    ///   - http: The HTTP transport to use, or `nil` for the default transport of the platform.
    public init(
        appID: String, key: String, secret: String, cluster: String, encryptionMasterKey: String? = nil, http: (any HTTPTransport)? = nil
    ) {
        let endpoint = Endpoint(scheme: "https", host: "api-\(cluster).pusher.com", port: 443)
        self.init(appID: appID, key: key, secret: secret, endpoint: endpoint, encryptionMasterKey: encryptionMasterKey, http: http)
    }

    /// Creates a publisher for an app on your own server.
    ///
    /// - Parameters:
    ///   - appID: The ID of the app.
    ///   - key: The key of the app.
    ///   - secret: The secret of the app.
    ///   - endpoint: The endpoint of the server. If it has a path, for example because of a proxy, the paths of requests begin with it. Its
    ///     query is ignored.
    ///   - encryptionMasterKey: The key for encrypted channels, 32 bytes in Base64; `nil` if the app has none.
    ///   - http: The HTTP transport to use, or `nil` for the default transport of the platform.
    public init(
        appID: String, key: String, secret: String, endpoint: Endpoint, encryptionMasterKey: String? = nil,
        http: (any HTTPTransport)? = nil
    ) {
        self.endpoint = Endpoint(scheme: endpoint.isSecure ? "https" : "http", host: endpoint.host, port: endpoint.port)
        self.pathPrefix = String(endpoint.path.utf8.last == UInt8(ascii: "/") ? endpoint.path.dropLast() : endpoint.path[...])
        self.appID = appID
        self.key = key
        self.secret = secret
        self.encryptionMasterKey = encryptionMasterKey
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
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
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
    ///   - channels: The names of the channels, by default at most 100; see ``channelLimit``.
    ///   - data: The data of the event: a string, which is sent unchanged, or any other value, which is encoded as JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually the connection of the client that caused it.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidEventName`` if the name of the event is invalid,
    ///   - ``PusherError/Code/invalidChannelName`` if the name of a channel is invalid, or the number of channels isn't between 1 and the
    ///     ``channelLimit``,
    ///   - ``PusherError/Code/encodingFailed`` if the data can't be encoded, with the error of the encoder as its ``PusherError/cause``,
    ///   - ``PusherError/Code/dataTooLarge`` if the data exceeds the ``eventDataLimit``,
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    public func publish(
        _ event: String, to channels: [String], data: some Encodable, except socketID: String? = nil
    ) async throws(PusherError) {
        let call = Call("publish(_:to:data:except:)", about: "the event")
        _ = try await self.post(try self.publication(event, channels, data, except: socketID), to: "events", call)
    }

    // MARK: Authorizing

    /// Authorizes a client to subscribe to a channel that isn't public.
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
    ///   - user: The user, who becomes a member of a presence channel. It is ignored for other channels. A presence channel requires it even
    ///     if the client has signed in; pass the user whom you have authenticated.
    /// - Returns: The authorization, which is valid for this channel and this connection of the client.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidSocketID`` if the socket ID doesn't consist of two numbers with a dot between them, such as `123.456`,
    ///   - ``PusherError/Code/invalidChannelName`` if the name of the channel is invalid, or the channel is public,
    ///   - ``PusherError/Code/invalidConfiguration`` if the channel is encrypted, and the publisher has no valid key for encrypted channels,
    ///   - ``PusherError/Code/invalidUser`` if the channel is a presence channel, and the user is `nil` or has an empty ID.
    public func authorize(socketID: String, channel: String, user: PusherMember? = nil) throws(PusherError) -> PusherChannelAuthorization {
        // Without these checks, a client could have a text signed that is valid for another channel.
        try Self.check(socketID: socketID)
        try self.check(channel: channel)
        let kind = ChannelName.kind(of: channel)
        guard kind.needsAuthorization else {
            throw PusherError(.invalidChannelName, "\(channel) is a public channel, which needs no authorization.", channel: channel)
        }
        guard !kind.isPresence || user?.id.isEmpty == false else {
            throw PusherError(.invalidUser, "\(channel) is a presence channel, which requires a user with an ID.", channel: channel)
        }
        let request = PusherAuthorizationRequest(channel: channel, socketID: socketID)
        let member = PresenceUser(id: user?.id ?? "", info: user?.info)
        return try PusherChannelAuthorization(
            signing: request, user: member, key: self.key, secret: self.secret, masterKey: self.encryptionMasterKey)
    }
}

// MARK: - Requests

extension PusherPublisher {
    /// The method that sends a request, for errors.
    struct Call: Sendable {
        let name: String
        /// The subject that the server accepts or rejects.
        let subject: String

        init(_ name: String, about subject: String = "the request") {
            self.name = name
            self.subject = subject
        }
    }

    /// Returns the body of a request that publishes an event, whose values it checks.
    func publication(
        _ event: String, _ channels: [String], _ data: some Encodable, except socketID: String?
    ) throws(PusherError) -> JSONObject {
        let limit = self.channelLimit
        guard !channels.isEmpty, channels.count <= limit else {
            throw PusherError(.invalidChannelName, "The number of channels must be between 1 and \(limit), but is \(channels.count).")
        }
        for channel in channels { try self.check(channel: channel) }
        let text = try self.checked(try Self.text(of: data, event), for: channels, event)
        return Self.publication(event, channels: channels, data: text, except: socketID)
    }

    /// Checks the name of a channel.
    func check(channel: String) throws(PusherError) {
        guard let error = ChannelName.validationError(channel), self.validatesChannelNames || channel.isEmpty else { return }
        throw .invalidChannelName(channel, error, setting: "PusherPublisher.validatesChannelNames")
    }

    /// Checks the name and the data of an event, and returns the data as it is sent: on an encrypted channel encrypted.
    func checked(_ data: String, for channels: [String], _ event: String) throws(PusherError) -> String {
        if let error = EventName.validationError(event, limit: self.eventNameLimit) { throw PusherError(.invalidEventName, error) }
        let text = try self.encrypted(data, for: channels, event)
        let size = text.utf8.count
        guard size <= self.eventDataLimit else {
            let isEncrypted = channels.contains { ChannelName.kind(of: $0).isEncrypted }
            throw .dataTooLarge(
                event, size, limit: self.eventDataLimit, setting: "PusherPublisher.eventDataLimit",
                plainSize: isEncrypted ? data.utf8.count : nil, channel: channels.count == 1 ? channels[0] : nil)
        }
        return text
    }

    private func encrypted(_ data: String, for channels: [String], _ event: String) throws(PusherError) -> String {
        guard let channel = channels.first(where: { ChannelName.kind(of: $0).isEncrypted }) else { return data }
        guard channels.count == 1 else {
            let message = "The event \(event) must be published on \(channel) alone: each encrypted channel has a key of its own."
            throw PusherError(.invalidChannelName, message, channel: channel)
        }
        let key = try PusherError.encryptionKey(self.encryptionMasterKey, for: channel).sharedSecret(of: channel)
        guard let payload = try? EncryptedPayload(encrypting: data, key: key, nonce: EncryptedPayload.nonce()) else {
            preconditionFailure("The nonce has the wrong length.")
        }
        return payload.json
    }

    /// Returns the body of a request that publishes an event whose values were checked.
    static func publication(_ event: String, channels: [String], data: String, except socketID: String? = nil) -> JSONObject {
        var body: JSONObject = ["name": .string(event), "channels": .array(channels.map { .string($0) }), "data": .string(data)]
        body["socket_id"] = socketID.map { .string($0) }
        return body
    }

    /// Returns the data of an event as text.
    static func text(of data: some Encodable, _ event: String) throws(PusherError) -> String {
        do {
            return try EventData.text(of: data)
        } catch {
            throw .encodingFailed(event, error)
        }
    }

    /// Sends a request whose response need not contain anything.
    func post(_ body: JSONObject, to path: String, _ call: Call) async throws(PusherError) -> HTTPResponse {
        try self.checked(try await self.send("POST", path, body: JSONValue.object(body).bytes, call), call)
    }

    /// Checks that it isn't a proxy or a web site that has answered, with a page.
    private func checked(_ response: HTTPResponse, _ call: Call) throws(PusherError) -> HTTPResponse {
        guard ResponseBody(response.body).isPage else { return response }
        throw self.invalidResponse(response, call, "it is a page of HTML. Check the host, the port and the path, and a proxy in between")
    }

    /// Sends a request and returns the response, whose status is 2xx.
    ///
    /// - Parameters:
    ///   - path: The path below the app's path, percent-encoded.
    ///   - query: The fields of the query, without percent-encoding.
    func send(
        _ method: String, _ path: String, query: [(name: String, value: String)] = [], body: [UInt8] = [], _ call: Call
    ) async throws(PusherError) -> HTTPResponse {
        var endpoint = self.endpoint
        // The signature doesn't cover the prefix, as in other libraries for servers: a proxy may remove it.
        endpoint.target =
            self.pathPrefix
            + RequestSignature.sign(
                method: method, path: "/apps/\(self.appID)/\(path)", query: query, body: body, key: self.key, secret: self.secret,
                unixTime: WallClock.secondsSince1970)
        let headers: HTTPHeaders = body.isEmpty ? [:] : ["Content-Type": "application/json"]
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await self.http.send(HTTPRequest(method, endpoint, headers: headers, body: body, idleTimeout: .seconds(30)))
        } catch {
            guard error.code != .cancelled else {
                let effect = method == "GET" ? "" : " The server may have accepted \(call.subject)."
                throw PusherError(.cancelled, "\(call.name) was cancelled with its task.\(effect)", cause: error)
            }
            throw PusherError(.failed, error.message, status: error.status, cause: error)
        }
        let status = response.head.status
        guard (200...299).contains(status) else {
            let reason = response.explanation
            var hint = status == 401 || status == 403 ? " Check the app ID, the key and the secret." : ""
            // A redirect isn't followed: the signature is valid for this path only.
            if let target = response.head.redirectTarget(from: endpoint) { hint = " It redirects to \(target); use that server." }
            let message = "\(self.endpoint.origin) rejected \(call.subject) with status \(reason)\(hint)"
            throw PusherError(.rejected, message, status: status, cause: TransportError(.requestRejected, message, response: response))
        }
        return response
    }
}

extension HTTPResponse {
    /// The summary of the response, without signatures and users' data. Of a JSON object, it contains the text of `error` or `message` alone,
    /// or those of an invalid request.
    fileprivate var explanation: String {
        var response = self
        if let object = try? ResponseBody(self.body).json().object {
            response.body = Array((object["error"]?.string ?? object["message"]?.string ?? Self.reasons(object)).utf8)
        }
        return ServerError.redacted(response.summary)
    }

    /// The texts about each field that Laravel sends for an invalid request: `{"name":["The name field is required."]}`.
    private static func reasons(_ object: JSONObject) -> String {
        object.flatMap { $0.value.array?.compactMap(\.string) ?? [] }.joined(separator: " ")
    }
}

extension PusherPublisher: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint), ("appID", self.appID), ("key", self.key), ("secret", Redacted.secret),
            ("encryptionMasterKey", Redacted.optional(self.encryptionMasterKey)),
        ]
    }
}
