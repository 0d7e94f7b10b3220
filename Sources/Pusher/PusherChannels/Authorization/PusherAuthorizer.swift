public import RealtimeCoding
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

/// A method of authorizing subscriptions to all channels that aren't public.
///
/// Signatures are only valid for one connection, so a client requests a new authorization for every subscription, including those after
/// a reconnect. At most ten authorizations of a client run at the same time. If the connection is lost or the channel is unsubscribed,
/// the task that runs the authorization is cancelled and its result is ignored.
public struct PusherAuthorizer: Sendable {
    enum Kind: Sendable {
        case endpoint(PusherAuthorizationEndpoint)
        case batchEndpoint(PusherAuthorizationEndpoint)
        case request(@Sendable (PusherAuthorizationRequest) async throws -> HTTPRequest)
        case completion(@Sendable (PusherAuthorizationRequest, @escaping Completion) -> Void)
        case direct(@Sendable (PusherAuthorizationRequest, @escaping Completion) -> Void)
        case callback(@Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization)
        case secret(String, userID: String?, userInfo: JSONValue?, masterKey: String?)
        case byChannel(@Sendable (_ channel: String) -> PusherAuthorizer?)
    }

    /// A closure to which an authorizer passes the authorization, or an error.
    public typealias Completion = @Sendable (Result<PusherChannelAuthorization, any Error>) -> Void

    let kind: Kind

    /// Whether only some authorizations run at the same time. An authorizer that runs without a task limits its requests itself.
    var isLimited: Bool { if case .direct = self.kind { false } else { true } }
    /// Whether a request may authorize several channels.
    var isBatched: Bool { if case .batchEndpoint = self.kind { true } else { false } }

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

    /// Returns an authorizer that sends one request to the application server for several channels.
    ///
    /// Use it if a client has many private channels: after each reconnect, one request authorizes up to 100 of them. The request is a `POST`
    /// of a form with the fields `socket_id`, `channel_name[0]`, `channel_name[1]` and so on. The response must be a JSON object with a
    /// member for each channel, which contains the status and the response of an endpoint for one channel:
    ///
    /// ```json
    /// {"private-a": {"status": 200, "data": {"auth": "KEY:SIGNATURE"}}, "private-b": {"status": 403}}
    /// ```
    /// Most application servers need an additional endpoint for it. Channels are authorized together if they are subscribed at the same time:
    /// requests of a client that connects, and requests that waited while ten other requests were running.
    ///
    /// - Parameter endpoint: The endpoint and the contents of the request.
    /// - Returns: An authorizer.
    public static func batchEndpoint(_ endpoint: PusherAuthorizationEndpoint) -> PusherAuthorizer {
        PusherAuthorizer(kind: .batchEndpoint(endpoint))
    }

    /// Returns an authorizer that sends a request of your own to the application server.
    ///
    /// Use it for an endpoint that expects something else than a form, for example JSON. The type of the request is in `RealtimeCore`:
    ///
    /// ```swift
    /// configuration.authorizer = .request { request in
    ///     let body = #"{"socket_id":"\#(request.socketID)","channel_name":"\#(request.channel)"}"#
    ///     return HTTPRequest("POST", endpoint, headers: ["Content-Type": "application/json"], body: Array(body.utf8))
    /// }
    /// ```
    /// The response must be the same as from an endpoint for forms: a JSON object with the member `auth`. The client sends the request with
    /// the HTTP transport of its configuration.
    ///
    /// - Parameter makeRequest: A closure that returns the request. It is called for each attempt, in the attempt's task and on no particular
    ///   actor; calls may overlap. An error that it throws fails the subscription like an error of ``callback(_:)``.
    /// - Returns: An authorizer.
    public static func request(
        _ makeRequest: @escaping @Sendable (PusherAuthorizationRequest) async throws -> HTTPRequest
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .request(makeRequest))
    }

    /// Returns an authorizer that calls a closure with a completion handler, for code that isn't asynchronous.
    ///
    /// ```swift
    /// configuration.authorizer = .completion { request, complete in
    ///     backend.authorize(request.channel, request.socketID) { result in complete(result) }
    /// }
    /// ```
    /// - Parameter authorize: A closure that calls its second parameter with the authorization or an error: immediately or later, on any
    ///   thread. The first answer counts, and further ones have no effect. Without an answer, the subscription fails after
    ///   ``PusherConfiguration/subscriptionTimeout``. An error fails the subscription like an error of ``callback(_:)``. The closure runs in
    ///   its own task, on no particular actor.
    /// - Returns: An authorizer.
    public static func completion(
        _ authorize: @escaping @Sendable (_ request: PusherAuthorizationRequest, _ complete: @escaping Completion) -> Void
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .completion(authorize))
    }

    /// Returns an authorizer that calls a closure like ``completion(_:)``, but without a task: on the thread that begins the subscription,
    /// which may be the one that reads from the connection.
    package static func direct(
        _ authorize: @escaping @Sendable (_ request: PusherAuthorizationRequest, _ complete: @escaping Completion) -> Void
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .direct(authorize))
    }

    /// Returns an authorizer that calls a closure.
    ///
    /// - Parameter authorize: A closure that returns the authorization. It runs in its own task, on no particular actor. An error that
    ///   it throws fails the subscription with the code ``PusherError/Code/authorizationFailed`` and becomes the
    ///   ``PusherError/cause`` of that error. The client then retries with growing delays, unless the error is a
    ///   ``PusherAuthorizationRefusal``.
    /// - Returns: An authorizer.
    public static func callback(
        _ authorize: @escaping @Sendable (PusherAuthorizationRequest) async throws -> PusherChannelAuthorization
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .callback(authorize))
    }

    /// Returns an authorizer that chooses another one for each channel, for example because the application has several endpoints.
    ///
    /// ```swift
    /// let orders = try PusherAuthorizer.endpoint("https://orders.example.org/pusher/auth")
    /// let people = try PusherAuthorizer.endpoint("https://people.example.org/pusher/auth")
    /// configuration.authorizer = .byChannel { channel in
    ///     channel.hasPrefix("presence-") ? people : orders
    /// }
    /// ```
    /// Each channel is authorized on its own, also with a ``batchEndpoint(_:)``, which then receives one channel with each request.
    ///
    /// - Parameter choose: A closure that returns the authorizer of a channel, or `nil` if there is none: the subscription then fails with the
    ///   code ``PusherError/Code/authorizationMissing``. It is called for each attempt, in the attempt's task and on no particular actor;
    ///   calls may overlap.
    /// - Returns: An authorizer.
    public static func byChannel(_ choose: @escaping @Sendable (_ channel: String) -> PusherAuthorizer?) -> PusherAuthorizer {
        PusherAuthorizer(kind: .byChannel(choose))
    }

    /// Returns an authorizer that signs subscriptions in the client, for development and tests.
    ///
    /// - Warning: Anyone who knows the secret can read and publish all events of the app. Never ship the secret with a client.
    ///
    /// - Parameters:
    ///   - secret: The secret of the app.
    ///   - userID: The ID of this client's user on presence channels, or `nil` to use the socket ID.
    ///   - userInfo: Information about the user that other members of presence channels receive.
    ///   - encryptionMasterKey: The key of the app for encrypted channels: 32 bytes in Base64. Without it, subscriptions to them fail.
    /// - Returns: An authorizer.
    public static func secret(
        _ secret: String, userID: String? = nil, userInfo: JSONValue? = nil, encryptionMasterKey: String? = nil
    ) -> PusherAuthorizer {
        PusherAuthorizer(kind: .secret(secret, userID: userID, userInfo: userInfo, masterKey: encryptionMasterKey))
    }
}

/// An endpoint of the application server that authorizes subscriptions, or authenticates the user.
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
    /// A closure that returns additional fields of the form for each request.
    ///
    /// They replace fields of ``parameters`` with the same names. If the closure throws, the subscription fails with the code
    /// ``PusherError/Code/authorizationFailed``.
    public var freshParameters: (@Sendable () async throws -> [String: String])?
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
    ///   - freshParameters: A closure that returns additional fields of the form for each request.
    public init(
        _ endpoint: Endpoint, headers: HTTPHeaders = [:], parameters: [String: String] = [:], timeout: Duration = .seconds(10),
        freshHeaders: (@Sendable () async throws -> HTTPHeaders)? = nil,
        freshParameters: (@Sendable () async throws -> [String: String])? = nil
    ) {
        self.endpoint = endpoint
        self.headers = headers
        self.parameters = parameters
        self.timeout = timeout
        self.freshHeaders = freshHeaders
        self.freshParameters = freshParameters
    }
}
