import RealtimeEncoding
public import RealtimeJSON
public import RealtimeCore
import PusherWire

/// The signed authorization of a subscription, as the application server returns it.
///
/// It is encoded as, and decoded from, the JSON object that application servers send to clients, such as
/// `{"auth":"…","channel_data":"…"}`. To create one in a backend, use ``PusherPublisher/authorize(socketID:channel:user:)``.
public struct PusherChannelAuthorization: Sendable, Hashable {
    /// The key of the app and the signature, in the form `key:signature`.
    public var auth: String
    /// The user of a presence channel as JSON text, exactly as it was signed.
    public var channelData: String?
    /// The Base64-encoded key of an encrypted channel.
    public var sharedSecret: String?

    /// Creates an authorization from the members of the application server's response.
    ///
    /// - Parameters:
    ///   - auth: The key of the app and the signature, in the form `key:signature`.
    ///   - channelData: The user of a presence channel as JSON text, exactly as it was signed.
    ///   - sharedSecret: The Base64-encoded key of an encrypted channel.
    public init(auth: String, channelData: String? = nil, sharedSecret: String? = nil) {
        self.auth = auth
        self.channelData = channelData
        self.sharedSecret = sharedSecret
    }
}

extension PusherChannelAuthorization: Codable {
    /// The names that all clients and servers of the protocol use.
    private enum CodingKeys: String, CodingKey {
        case auth
        case channelData = "channel_data"
        case sharedSecret = "shared_secret"
    }
}

/// A request to authorize a subscription.
public struct PusherAuthorizationRequest: Sendable, Hashable {
    /// The name of the channel.
    public let channel: String
    /// The ID that the server assigned to the connection.
    public let socketID: String

    /// Creates a request, for example for a test of a closure that authorizes.
    ///
    /// - Parameters:
    ///   - channel: The name of the channel.
    ///   - socketID: The ID that the server assigned to the connection.
    public init(channel: String, socketID: String) {
        self.channel = channel
        self.socketID = socketID
    }
}

/// A method of authorizing subscriptions to private and presence channels.
///
/// Signatures are only valid for one connection, so a client requests a new authorization for every subscription, including those after
/// a reconnect. At most ten authorizations of a client run at the same time. If the connection is lost or the channel is unsubscribed,
/// the task that runs the authorization is cancelled and its result is ignored.
public struct PusherAuthorizer: Sendable {
    enum Kind: Sendable {
        case endpoint(PusherAuthorizationEndpoint)
        case callback(@Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization)
        case secret(String, userID: String?, userInfo: JSONValue?)
    }

    let kind: Kind

    /// Returns an authorizer that sends a request to the application server.
    ///
    /// The request is a `POST` of a form with the fields `socket_id` and `channel_name`, as all Pusher clients send it. The response
    /// must be a JSON object with the member `auth`.
    ///
    /// - Parameter endpoint: The endpoint and the contents of the request.
    /// - Returns: An authorizer.
    public static func endpoint(_ endpoint: PusherAuthorizationEndpoint) -> PusherAuthorizer { PusherAuthorizer(kind: .endpoint(endpoint)) }

    /// Returns an authorizer that sends a request to a URL of the application server.
    ///
    /// - Parameters:
    ///   - url: The URL, such as `https://example.org/pusher/auth`.
    ///   - headers: Additional header fields, such as `Authorization`.
    /// - Returns: An authorizer.
    /// - Throws: A `TransportError` with the code `invalidURL` if the URL is invalid.
    public static func endpoint(_ url: String, headers: HTTPHeaders = [:]) throws(TransportError) -> PusherAuthorizer {
        .endpoint(PusherAuthorizationEndpoint(try Endpoint(url), headers: headers))
    }

    /// Returns an authorizer that sends a request to a URL of the application server, with header fields that are determined for each
    /// request. Use it for tokens that expire:
    ///
    /// ```swift
    /// configuration.authorizer = try .endpoint("https://example.org/pusher/auth") {
    ///     ["Authorization": "Bearer \(try await session.token())"]
    /// }
    /// ```
    /// - Parameters:
    ///   - url: The URL, such as `https://example.org/pusher/auth`.
    ///   - headers: A closure that returns additional header fields. It is called before each request, in the request's task and on no
    ///     particular actor; calls may overlap. The task is cancelled when the result is no longer needed. An error that it throws fails
    ///     the subscription with the code ``PusherError/Code/authorizationFailed`` and becomes the ``PusherError/cause`` of that error. The
    ///     client then retries with growing delays.
    /// - Returns: An authorizer.
    /// - Throws: A `TransportError` with the code `invalidURL` if the URL is invalid.
    public static func endpoint(
        _ url: String, headers: @escaping @Sendable () async throws -> HTTPHeaders
    ) throws(TransportError) -> PusherAuthorizer {
        .endpoint(PusherAuthorizationEndpoint(try Endpoint(url), freshHeaders: headers))
    }

    /// Returns an authorizer that calls a closure.
    ///
    /// - Parameter authorize: A closure that returns the authorization. It runs in its own task, on no particular actor. An error that
    ///   it throws fails the subscription with the code ``PusherError/Code/authorizationFailed`` and becomes the
    ///   ``PusherError/cause`` of that error. The client then retries with growing delays.
    /// - Returns: An authorizer.
    public static func callback(
        _ authorize: @escaping @Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .callback(authorize))
    }

    /// Returns an authorizer that signs subscriptions in the client, for development and tests.
    ///
    /// - Warning: Anyone who knows the secret can read and publish all events of the app. Never ship the secret with a client.
    ///
    /// - Parameters:
    ///   - secret: The secret of the app.
    ///   - userID: The ID of this client's user on presence channels, or `nil` to use the socket ID.
    ///   - userInfo: Information about the user that other members of presence channels receive.
    /// - Returns: An authorizer.
    public static func secret(_ secret: String, userID: String? = nil, userInfo: JSONValue? = nil) -> PusherAuthorizer {
        PusherAuthorizer(kind: .secret(secret, userID: userID, userInfo: userInfo))
    }
}

/// An endpoint of the application server that authorizes subscriptions.
public struct PusherAuthorizationEndpoint: Sendable {
    /// The endpoint that requests are sent to.
    public var endpoint: Endpoint
    /// Additional header fields, such as `Authorization`. They are only sent to this endpoint.
    public var headers: HTTPHeaders
    /// Additional fields of the form.
    public var parameters: [String: String]
    /// A closure that returns header fields for each request, for example a token that expires.
    ///
    /// The fields replace all fields of ``headers`` with the same names. If the closure throws, the subscription fails with the code
    /// ``PusherError/Code/authorizationFailed``.
    public var freshHeaders: (@Sendable () async throws -> HTTPHeaders)?
    /// The time limit for connecting to the server, and for each pause in its response. The default is 10 seconds.
    public var timeout: Duration

    /// Creates a description of an endpoint.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint that requests are sent to.
    ///   - headers: Additional header fields.
    ///   - parameters: Additional fields of the form.
    ///   - timeout: The time limit for connecting to the server, and for each pause in its response.
    ///   - freshHeaders: A closure that returns header fields for each request.
    public init(
        _ endpoint: Endpoint, headers: HTTPHeaders = [:], parameters: [String: String] = [:], timeout: Duration = .seconds(10),
        freshHeaders: (@Sendable () async throws -> HTTPHeaders)? = nil
    ) {
        self.endpoint = endpoint
        self.headers = headers
        self.parameters = parameters
        self.timeout = timeout
        self.freshHeaders = freshHeaders
    }

    func authorize(
        _ request: PusherAuthorizationRequest, over http: any HTTPTransport
    ) async throws(PusherError) -> PusherChannelAuthorization {
        func failed(_ reason: String, status: Int? = nil, cause: (any Error)? = nil) -> PusherError {
            .authorizationFailed(request.channel, " at \(self.endpoint)", reason, status: status, cause: cause)
        }
        var headers = self.headers
        if let freshHeaders {
            do {
                let fresh = try await freshHeaders()
                for field in fresh { headers[field.name] = nil }
                for field in fresh { headers.add(field.name, field.value) }
            } catch {
                throw failed("the closure for the header fields threw an error of type \(type(of: error)).", cause: error)
            }
        }
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        var form = self.parameters
        form["socket_id"] = request.socketID
        form["channel_name"] = request.channel
        let body = form.sorted { $0.key < $1.key }.map { "\(PercentEncoding.encode($0.key))=\(PercentEncoding.encode($0.value))" }
        let post = HTTPRequest(
            "POST", self.endpoint, headers: headers, body: Array(body.joined(separator: "&").utf8), connectTimeout: self.timeout,
            idleTimeout: self.timeout)
        let response: HTTPResponse
        do throws(TransportError) {
            response = try await http.send(post, bodyLimit: 256 << 10)
        } catch {
            throw failed(error.message, cause: error)
        }
        let status = response.head.status
        func rejected(_ reason: String) -> PusherError {
            failed(reason, status: status, cause: TransportError(.requestRejected, "\(self.endpoint): \(reason)", response: response))
        }
        // Without the body, which may contain a token or repeat one.
        let summary = response.statusSummary
        switch status {
        case 200, 201: break
        case 300...399: throw rejected("the server redirects with status \(status). Use the URL that it redirects to.")
        case 401, 403: throw rejected("the server rejected the subscription with status \(summary)")
        default: throw rejected("the server responded with status \(summary)")
        }
        // The body of an invalid response stays out of the error: it may contain a token.
        guard let json = try? JSONValue(parsing: response.body), let auth = json["auth"]?.string else {
            throw failed("the response must be a JSON object with a string \"auth\".", status: status)
        }
        return PusherChannelAuthorization(
            auth: auth, channelData: json["channel_data"]?.string, sharedSecret: json["shared_secret"]?.string)
    }
}
