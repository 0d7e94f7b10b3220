public import PusherChannels
public import PusherServer
public import RealtimeCore
public import RealtimeTesting

/// A server, a network and a clock for a test, and the clients that the test creates.
///
/// ```swift
/// let pusher = try await InMemoryPusher()
/// let client = pusher.client(userID: "anna")
/// client.connect()
/// let prices = try client.subscribe("prices")
/// pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
/// ```
/// Clients and the server are connected by an in-memory network: when a call such as `connect()`, `publish(_:to:data:except:)` or
/// ``clock``'s `advance(by:)` returns, its effects are complete. Exceptions are hooks of the server, and authorizers other than that of
/// ``client(userID:userInfo:)``, which run in tasks.
///
/// Every instance is independent of all others, so that tests can run in parallel. Keep a reference to it until the end of the test:
/// the server closes its connections when it is released.
public struct InMemoryPusher: Sendable {
    /// The clock of the server, the clients and the network. It advances only when the test advances it.
    public let clock: ManualClock
    /// The network, which can be interrupted.
    public let network: InMemoryNetwork
    /// The server, which has been started.
    public let server: PusherServer
    /// The address of the server on the network.
    public let address: ListenerAddress

    /// Creates a server, and starts it on a network of its own.
    ///
    /// - Parameters:
    ///   - hooks: Closures that decide what the server accepts.
    ///   - webhooks: Requests with which the server reports events to application servers on the network; `nil` for none.
    ///   - log: The destination of the server's log messages. By default, they are discarded.
    ///   - clock: The clock of the server, the clients and the network.
    ///   - configure: A closure that changes the app before the server is created, for example its limits. The app has the ID `1`, the key
    ///     `key` and the secret `secret`.
    /// - Throws: A `TransportError` if the server can't be started.
    public init(
        hooks: PusherServerHooks = PusherServerHooks(), webhooks: PusherServerWebhooks? = nil, log: LogSink = .none,
        clock: ManualClock = ManualClock(),
        configure: (inout PusherApp) -> Void = { _ in }
    ) async throws(TransportError) {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.encryptionMasterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        configure(&app)
        self.clock = clock
        self.network = InMemoryNetwork(clock: clock)
        self.server = PusherServer(app: app, network: self.network, hooks: hooks, webhooks: webhooks, log: log)
        self.address = try await self.server.start(on: self.network.listener())
    }

    /// Returns the configuration of a client of the server, for code that creates its client from a configuration.
    ///
    /// The client signs subscriptions itself, with the secret of the app: without a request and so before `subscribe(_:)` returns.
    /// It logs nothing.
    ///
    /// - Parameters:
    ///   - userID: The ID of the client's user on presence channels, or `nil` to use the socket ID.
    ///   - userInfo: Information about the user that other members of presence channels receive.
    /// - Returns: A configuration that can be changed before it is used.
    public func configuration(userID: String? = nil, userInfo: JSONValue? = nil) -> PusherConfiguration {
        var configuration = PusherConfiguration(
            key: self.server.app.key, host: self.address.host, port: self.address.port, useTLS: false)
        configuration.transports = self.network.transports()
        configuration.authorizer = .secret(
            self.server.app.secret, userID: userID, userInfo: userInfo, encryptionMasterKey: self.server.app.encryptionMasterKey)
        configuration.log = .none
        return configuration
    }

    /// Creates a client of the server. It doesn't connect until you call its `connect()`.
    ///
    /// - Parameters:
    ///   - userID: The ID of the client's user on presence channels, or `nil` to use the socket ID.
    ///   - userInfo: Information about the user that other members of presence channels receive.
    /// - Returns: The client.
    public func client(userID: String? = nil, userInfo: JSONValue? = nil) -> PusherClient {
        PusherClient(self.configuration(userID: userID, userInfo: userInfo))
    }

    /// Creates a client of the server with a changed configuration. It doesn't connect until you call its `connect()`.
    ///
    /// - Parameters:
    ///   - userID: The ID of the client's user on presence channels, or `nil` to use the socket ID.
    ///   - userInfo: Information about the user that other members of presence channels receive.
    ///   - configure: A closure that changes the configuration before the client is created; see ``configuration(userID:userInfo:)``.
    /// - Returns: The client.
    /// - Throws: The error that `configure` throws.
    public func client(
        userID: String? = nil, userInfo: JSONValue? = nil, configure: (inout PusherConfiguration) throws -> Void
    ) rethrows -> PusherClient {
        var configuration = self.configuration(userID: userID, userInfo: userInfo)
        try configure(&configuration)
        return PusherClient(configuration)
    }

    /// Creates a publisher for the app, for code that publishes over the HTTP API, queries channels, signs for clients or verifies webhooks.
    ///
    /// Its requests use the in-memory network. So do those of code that creates a publisher itself, with the transport
    /// `network.transports().http` and the address of the server. To publish without a request, use ``server``.
    ///
    /// - Returns: The publisher, with the key for encrypted channels.
    public func publisher() -> PusherPublisher {
        let app = self.server.app
        return PusherPublisher(
            appID: app.id, key: app.key, secret: app.secret,
            endpoint: Endpoint(scheme: "http", host: self.address.host, port: self.address.port),
            encryptionMasterKey: app.encryptionMasterKey, http: self.network.transports().http)
    }

    /// Starts an authorization endpoint on the network, like the endpoint of an application server.
    ///
    /// ```swift
    /// let endpoint = try await pusher.startAuthorizationEndpoint { attempt in
    ///     attempt.channel == "private-staff" ? .reject(message: "Only for staff.") : .accept(userID: "anna")
    /// }
    /// let client = pusher.client { $0.authorizer = .endpoint(endpoint) }
    /// ```
    /// A client sends its requests to the endpoint in tasks. Wait for a subscription with its channel's `subscribed(within:)`.
    ///
    /// - Parameters:
    ///   - host: The host name of the endpoint on the network. An endpoint needs one that no other uses.
    ///   - decide: A closure that decides about each request to authorize a subscription; see `PusherAuthorizationHandler`. By default, all
    ///     are accepted.
    ///   - authenticateUser: A closure that decides about each request to authenticate a user, for `PusherUserAuthenticator.endpoint(_:)`.
    ///     By default, all are rejected.
    /// - Returns: The endpoint, at port 80 and the path `/pusher/auth`, to which header fields and form fields can be added.
    /// - Throws: A `TransportError` with the code `addressInUse` if the host name is in use.
    public func startAuthorizationEndpoint(
        host: String = "app",
        decide: @escaping @Sendable (PusherAuthorizationAttempt) async -> PusherAuthorizationDecision = { _ in .accept() },
        authenticateUser: (@Sendable (PusherUserAuthenticationAttempt) async -> PusherUserAuthenticationDecision)? = nil
    ) async throws(TransportError) -> PusherAuthorizationEndpoint {
        let handler = PusherAuthorizationHandler(app: self.server.app, decide: decide, authenticateUser: authenticateUser)
        let address = try await self.network.listener(host: host, port: 80).start(handler)
        return PusherAuthorizationEndpoint(Endpoint(scheme: "http", host: address.host, port: address.port, target: "/pusher/auth"))
    }
}

extension InMemoryPusher: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("address", self.address), ("server", self.server)] }
}
