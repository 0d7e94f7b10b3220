import RealtimeJSON
internal import RealtimeSystem
import PusherWire
public import RealtimeCore
internal import RealtimeTransports

/// Publishes events over the service's HTTP API: for servers and tools, since it needs the application's secret.
///
/// ```swift
/// let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", cluster: "eu")
/// try await publisher.publish("price", to: ["prices"], data: #"{"value":12}"#)
/// ```
public struct PusherPublisher: Sendable {
    /// Where the HTTP API is, without a path.
    public let endpoint: Endpoint
    private let appID, key, secret: String
    private let http: any HTTPTransport

    /// A publisher for an application on one of the service's clusters.
    public init(appID: String, key: String, secret: String, cluster: String, http: (any HTTPTransport)? = nil) {
        let endpoint = Endpoint(scheme: "https", host: "api-\(cluster).pusher.com", port: 443)
        self.init(appID: appID, key: key, secret: secret, endpoint: endpoint, http: http)
    }

    /// A publisher for an application on a host of your own. What the endpoint asks for there is not looked at.
    public init(appID: String, key: String, secret: String, endpoint: Endpoint, http: (any HTTPTransport)? = nil) {
        self.endpoint = Endpoint(scheme: endpoint.isSecure ? "https" : "http", host: endpoint.host, port: endpoint.port)
        self.appID = appID
        self.key = key
        self.secret = secret
        self.http = http ?? Transports.standard.http
    }

    /// Publishes an event, and returns when the service has accepted it.
    ///
    /// - Parameters:
    ///   - event: its name.
    ///   - channels: where it goes, 1 to 100 channels.
    ///   - data: sent as it is; usually JSON. At most 10 KiB.
    ///   - socketID: a connection that is not to get it, usually that of whoever caused the event.
    ///
    /// It throws ``PusherError/Code/invalidEventName`` and the like before anything is sent, ``PusherError/Code/failed``
    /// when the service was not to be reached, and ``PusherError/Code/refused`` with the service's words when it
    /// refused. It is not tried again.
    public func publish(_ event: String, to channels: [String], data: String, except socketID: String? = nil) async throws(PusherError) {
        if let problem = EventName.validationError(event) { throw PusherError(.invalidEventName, problem) }
        guard (1...100).contains(channels.count) else {
            throw PusherError(.invalidChannelName, "An event goes to 1 to 100 channels at a time, not to \(channels.count).")
        }
        for channel in channels {
            if let problem = ChannelName.validationError(channel) { throw PusherError(.invalidChannelName, problem) }
        }
        guard data.utf8.count <= EventName.maximumDataSize else {
            throw PusherError(.dataTooLarge, "The data has \(data.utf8.count) bytes; the service takes \(EventName.maximumDataSize).")
        }
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
            let body = ServerError.redacted(String(decoding: response.body.prefix(300), as: UTF8.self))
            let words = body.split(whereSeparator: \.isNewline).joined(separator: " ")
            let what = "\(self.endpoint.origin) refused the event with status \(status)\(words.isEmpty ? "." : ": \(words)")"
            throw PusherError(.refused, what, status: status)
        }
    }
}
