public import RealtimeCore

/// A client with the conventions of Laravel's broadcasting, as Laravel Echo has them for JavaScript.
///
/// ```swift
/// let echo = PusherEcho(client)
/// let orders = try echo.private("orders.1")
/// for await update in orders.listen("OrderShipped", as: Shipment.self) {
///     print(update.carrier)
/// }
/// ```
/// The names of channels have no prefixes, and the names of events are the names of the classes in the application; see ``eventName(_:)``.
///
/// An echo is a value that adds names to a client: it has no state of its own, and you can use the client directly as well. You can call every
/// method from any thread, actor, or task.
public struct PusherEcho: Sendable {
    /// The client, which connects, and has the state of all channels.
    public let client: PusherClient
    /// The namespace of the application's events, or `nil` if the names of events are complete.
    public let namespace: String?

    /// Creates an echo for a client.
    ///
    /// - Parameters:
    ///   - client: The client. Its configuration determines how channels are authorized.
    ///   - namespace: The namespace of the application's events, or `nil` if the names of events are complete.
    public init(_ client: PusherClient, namespace: String? = "App.Events") {
        self.client = client
        self.namespace = namespace
    }

    /// Creates a client whose channels and user are authorized by the routes of a Laravel application: `/broadcasting/auth` and
    /// `/broadcasting/user-auth`. The client doesn't connect until you call its ``PusherClient/connect()``.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the client. If it has an authorizer or a user authenticator, that one is used instead.
    ///   - application: The URL of the application, such as `https://example.org`. A path in it is ignored.
    ///   - namespace: The namespace of the application's events, or `nil` if the names of events are complete.
    ///   - headers: A closure that returns header fields for each request to the application, such as `Authorization` or `X-CSRF-TOKEN`.
    /// - Throws: A `TransportError` with the code `invalidURL` if the URL is invalid.
    public init(
        _ configuration: PusherConfiguration, application: String, namespace: String? = "App.Events",
        headers: (@Sendable () async throws -> HTTPHeaders)? = nil
    ) throws(TransportError) {
        let application = try Endpoint(application)
        // Without it, Laravel answers requests of unknown users with a redirect to a web page.
        let accept: HTTPHeaders = ["Accept": "application/json"]
        var configuration = configuration
        if configuration.authorizer == nil {
            let endpoint = try application.resolving("/broadcasting/auth")
            configuration.authorizer = .endpoint(PusherAuthorizationEndpoint(endpoint, headers: accept, freshHeaders: headers))
        }
        if configuration.userAuthenticator == nil {
            let endpoint = try application.resolving("/broadcasting/user-auth")
            configuration.userAuthenticator = .endpoint(PusherAuthorizationEndpoint(endpoint, headers: accept, freshHeaders: headers))
        }
        self.init(PusherClient(configuration), namespace: namespace)
    }

    /// The ID of the connection, or `nil` while the client isn't connected.
    ///
    /// Send it to the application in the header field `X-Socket-ID` of requests, so that events that are broadcast to others don't return to
    /// this client.
    public var socketID: String? { self.client.socketID }

    /// Returns the name under which the application broadcasts an event.
    ///
    /// A name that starts with `.` or `\` is complete without this character. Any other name is preceded by the ``namespace``, and its dots
    /// are replaced by backslashes, since it is the name of a class: `OrderShipped` becomes `App\Events\OrderShipped`.
    ///
    /// - Parameter event: The name of the event in your code.
    /// - Returns: The name of the event on its channel.
    public func eventName(_ event: String) -> String {
        if event.hasPrefix(".") || event.hasPrefix("\\") { return String(event.dropFirst()) }
        return Self.className(self.classPrefix + event)
    }

    /// Returns the name of an event in your code, for its name on a channel. It is the opposite of ``eventName(_:)``.
    func shortName(of event: String) -> String { Self.shortName(of: event, prefix: self.eventPrefix) }

    /// - Parameter prefix: The ``eventPrefix``, so that a sequence that needs names doesn't refer to its client.
    static func shortName(of event: String, prefix: String) -> String {
        !prefix.isEmpty && event.hasPrefix(prefix) ? String(event.dropFirst(prefix.count)) : ".\(event)"
    }

    /// The prefix of the name of a class in the name of an event on a channel.
    var eventPrefix: String { Self.className(self.classPrefix) }

    private var classPrefix: String {
        if let namespace, !namespace.isEmpty { "\(namespace)." } else { "" }
    }

    private static func className(_ name: String) -> String { String(name.map { $0 == "." ? "\\" : $0 }) }

    // MARK: Channels

    /// Subscribes to a public channel; see ``PusherClient/subscribe(_:)``.
    ///
    /// - Parameter name: The name of the channel.
    /// - Returns: The channel.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name is invalid.
    @discardableResult
    public func channel(_ name: String) throws(PusherError) -> PusherEchoChannel {
        PusherEchoChannel(try self.client.subscribe(name), self)
    }

    /// Subscribes to a private channel; see ``PusherClient/subscribe(_:)``.
    ///
    /// - Parameter name: The name of the channel without `private-`.
    /// - Returns: The channel.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name is invalid.
    @discardableResult
    public func `private`(_ name: String) throws(PusherError) -> PusherEchoChannel { try self.channel("private-\(name)") }

    /// Subscribes to an encrypted private channel; see ``PusherClient/subscribe(_:)``.
    ///
    /// - Parameter name: The name of the channel without `private-encrypted-`.
    /// - Returns: The channel.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name is invalid.
    @discardableResult
    public func encryptedPrivate(_ name: String) throws(PusherError) -> PusherEchoChannel {
        try self.channel("private-encrypted-\(name)")
    }

    /// Subscribes to a presence channel; see ``PusherClient/subscribe(_:)``.
    ///
    /// - Parameter name: The name of the channel without `presence-`.
    /// - Returns: The channel.
    /// - Throws: A ``PusherError`` with the code ``PusherError/Code/invalidChannelName`` if the name is invalid.
    @discardableResult
    public func presence(_ name: String) throws(PusherError) -> PusherEchoChannel { try self.channel("presence-\(name)") }

    /// Unsubscribes from the public, private, encrypted and presence channels with a name.
    ///
    /// - Parameter name: The name of the channels without a prefix.
    public func leave(_ name: String) {
        for prefix in ["", "private-", "private-encrypted-", "presence-"] { self.client.unsubscribe(prefix + name) }
    }

    /// Unsubscribes from one channel.
    ///
    /// - Parameter name: The name of the channel with its prefix, such as `private-orders`.
    public func leaveChannel(_ name: String) { self.client.unsubscribe(name) }
}

extension PusherEcho: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("client", self.client), ("namespace", self.namespace)] }
}
