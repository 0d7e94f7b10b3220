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
/// try await publisher.publish("price", to: ["prices"], data: #"{"value":12}"#)
/// ```
public struct PusherPublisher: Sendable {
    /// The endpoint of the HTTP API, without a path.
    public let endpoint: Endpoint
    let appID, key: String
    private let secret: String
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
    ///   - endpoint: The endpoint of the server, whose path and query are ignored.
    ///   - http: The HTTP transport to use, or `nil` for the default transport of the platform.
    public init(appID: String, key: String, secret: String, endpoint: Endpoint, http: (any HTTPTransport)? = nil) {
        self.endpoint = Endpoint(scheme: endpoint.isSecure ? "https" : "http", host: endpoint.host, port: endpoint.port)
        self.appID = appID
        self.key = key
        self.secret = secret
        self.http = http ?? Transports.standard.http
    }

    /// Publishes an event, and returns when the server has accepted it.
    ///
    /// A failed request isn't retried. If the task is cancelled, the request is cancelled; the server may have accepted the event.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - channels: The names of 1 to 100 channels.
    ///   - data: The data of the event, usually JSON; at most 10 KiB.
    ///   - socketID: The ID of a connection that doesn't receive the event, usually that of the client that caused it.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/invalidEventName`` if the name of the event is invalid,
    ///   - ``PusherError/Code/invalidChannelName`` if the name of a channel is invalid, or the number of channels isn't between 1 and
    ///     100,
    ///   - ``PusherError/Code/dataTooLarge`` if the data has more than 10 KiB,
    ///   - ``PusherError/Code/failed`` if the request fails, with a `TransportError` as its ``PusherError/cause``,
    ///   - ``PusherError/Code/rejected`` if the server rejects the request, with its ``PusherError/status``,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled.
    public func publish(_ event: String, to channels: [String], data: String, except socketID: String? = nil) async throws(PusherError) {
        if let error = EventName.validationError(event) { throw PusherError(.invalidEventName, error) }
        guard (1...100).contains(channels.count) else {
            throw PusherError(.invalidChannelName, "The number of channels must be between 1 and 100, but is \(channels.count).")
        }
        for channel in channels {
            if let error = ChannelName.validationError(channel) { throw PusherError(.invalidChannelName, error) }
        }
        guard data.utf8.count <= EventName.maximumDataSize else { throw .dataTooLarge(event, data.utf8.count) }
        var body: JSONObject = ["name": .string(event), "channels": .array(channels.map { .string($0) }), "data": .string(data)]
        if let socketID { body["socket_id"] = .string(socketID) }
        try await self.post("events", body: JSONValue.object(body).bytes)
    }

    private func post(_ path: String, body: [UInt8]) async throws(PusherError) {
        var endpoint = self.endpoint
        endpoint.target = RequestSignature.sign(
            method: "POST", path: "/apps/\(self.appID)/\(path)", body: body, key: self.key, secret: self.secret,
            unixTime: WallClock.secondsSince1970)
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await self.http.send(
                HTTPRequest("POST", endpoint, headers: ["Content-Type": "application/json"], body: body, idleTimeout: .seconds(30)))
        } catch {
            throw PusherError(error.code == .cancelled ? .cancelled : .failed, error.message, status: error.status, cause: error)
        }
        let status = response.head.status
        guard (200...299).contains(status) else {
            let reason = ServerError.redacted(response.summary)
            let hint = status == 401 || status == 403 ? " Check the app ID, the key and the secret." : ""
            let message = "\(self.endpoint.origin) rejected the event with status \(reason)\(hint)"
            throw PusherError(.rejected, message, status: status, cause: TransportError(.requestRejected, message, response: response))
        }
    }
}
