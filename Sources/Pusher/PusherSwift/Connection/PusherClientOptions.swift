public import Dispatch
public import Foundation
public import RealtimeCore

/// The settings of a client.
///
/// `@unchecked Sendable`: what can be changed is protected by a lock.
#if canImport(ObjectiveC)
@objcMembers
#endif
public class PusherClientOptions: NSObject, @unchecked Sendable {
    private struct Values {
        var authMethod: AuthMethod
        var autoReconnect: Bool
        var authParameters: [String: String] = [:]
        var authHeaders: [String: String] = [:]
        var headers: [String: String] = [:]
        var connectAutomatically = false
        var reconnectDelay: TimeInterval?
        var unavailableTimeout: TimeInterval = 30
        var unavailableRetryInterval: TimeInterval?
        var connectTimeout: TimeInterval = 15
        var subscriptionTimeout: TimeInterval = 30
        var validatesChannelNames = true
        var callbackQueue = DispatchQueue.main
        var pushServiceURL = PusherClientOptions.retiredServiceURL
        var transports: Transports?
    }

    /// The URL of the service for push notifications that Pusher has retired.
    private static let retiredServiceURL =
        URL(string: "https://nativepushclient-cluster1.pusher.com/client_api/v1") ?? URL(fileURLWithPath: "/")

    private let values: Guarded<Values>

    /// Whether handlers of versions 5 to 9 receive data that is JSON as objects of Foundation, instead of as text.
    public let attemptToReturnJSONObject: Bool
    /// The name of the host.
    public let host: String
    /// The port.
    public let port: Int
    /// The path before `/app/KEY`, if any.
    public let path: String?
    /// Whether to use TLS.
    public let useTLS: Bool
    /// The path without slashes at its end, which would be followed by another one.
    let serverPath: String
    /// Whether to use TLS, as versions 5 to 7 call it.
    public var encrypted: Bool { self.useTLS }
    /// The time in seconds without a message after which the client sends a ping, or `nil` for the one that the server requests.
    public let activityTimeout: TimeInterval?

    /// How subscriptions are authorized.
    public var authMethod: AuthMethod {
        get { self.values.read { $0.authMethod } }
        set { self.values.set(\.authMethod, to: newValue) }
    }

    /// Whether the client reconnects automatically.
    public var autoReconnect: Bool {
        get { self.values.read { $0.autoReconnect } }
        set { self.values.set(\.autoReconnect, to: newValue) }
    }

    /// Creates settings.
    ///
    /// - Parameters:
    ///   - authMethod: How subscriptions to private and presence channels are authorized.
    ///   - attemptToReturnJSONObject: Whether handlers of versions 5 to 9 receive objects of Foundation.
    ///   - autoReconnect: Whether the client reconnects automatically.
    ///   - host: The server.
    ///   - port: The port, or `nil` for the default port: 443 with TLS, 80 without.
    ///   - path: The path before `/app/KEY`, which starts with a slash and doesn't end with one.
    ///   - useTLS: Whether to use TLS.
    ///   - activityTimeout: The time in seconds without a message after which the client sends a ping.
    public init(
        authMethod: AuthMethod = .noMethod, attemptToReturnJSONObject: Bool = true, autoReconnect: Bool = true,
        host: PusherHost = .defaultHost, port: Int? = nil, path: String? = nil, useTLS: Bool = true, activityTimeout: TimeInterval? = nil
    ) {
        self.values = Guarded(Values(authMethod: authMethod, autoReconnect: autoReconnect))
        self.attemptToReturnJSONObject = attemptToReturnJSONObject
        self.host = host.stringValue
        self.port = port ?? (useTLS ? 443 : 80)
        self.path = path
        var serverPath = path ?? ""
        while serverPath.hasSuffix("/") { serverPath.removeLast() }
        self.serverPath = serverPath
        self.useTLS = useTLS
        self.activityTimeout = activityTimeout
    }

    /// Creates settings, as in versions 5 to 7.
    ///
    /// - Parameters:
    ///   - authMethod: How subscriptions to private and presence channels are authorized.
    ///   - attemptToReturnJSONObject: Whether handlers receive objects of Foundation.
    ///   - autoReconnect: Whether the client reconnects automatically.
    ///   - host: The server.
    ///   - port: The port, or `nil` for the default port: 443 with TLS, 80 without.
    ///   - encrypted: Whether to use TLS.
    ///   - activityTimeout: The time in seconds without a message after which the client sends a ping.
    public convenience init(
        authMethod: AuthMethod = .noMethod, attemptToReturnJSONObject: Bool = true, autoReconnect: Bool = true,
        host: PusherHost = .defaultHost, port: Int? = nil, encrypted: Bool, activityTimeout: TimeInterval? = nil
    ) {
        self.init(
            authMethod: authMethod, attemptToReturnJSONObject: attemptToReturnJSONObject, autoReconnect: autoReconnect, host: host,
            port: port, useTLS: encrypted, activityTimeout: activityTimeout)
    }

    // MARK: Settings that PusherSwift doesn't have

    /// The queue on which delegates and handlers are called. The default is the main queue. It must be a serial queue, and be set before the
    /// client is created.
    public var callbackQueue: DispatchQueue {
        get { self.values.read { $0.callbackQueue } }
        set { self.values.set(\.callbackQueue, to: newValue) }
    }

    /// The URL of the endpoint that authorizes subscriptions. Setting it sets ``authMethod``; it is `nil` with another method.
    public var authEndpoint: String? {
        get { if case .endpoint(let endpoint) = self.authMethod { endpoint } else { nil } }
        set { self.authMethod = newValue.map { .endpoint(authEndpoint: $0) } ?? .noMethod }
    }

    /// The URL of the endpoint that authorizes subscriptions, under its name in libPusher; see ``authEndpoint``.
    public var authorizationURL: URL? {
        get { self.authEndpoint.flatMap { URL(string: $0) } }
        set { self.authEndpoint = newValue?.absoluteString }
    }

    /// Additional fields of the form that is sent to the ``authEndpoint``.
    public var authParameters: [String: String] {
        get { self.values.read { $0.authParameters } }
        set { self.values.set(\.authParameters, to: newValue) }
    }

    /// Additional header fields of the request to the ``authEndpoint``.
    public var authHeaders: [String: String] {
        get { self.values.read { $0.authHeaders } }
        set { self.values.set(\.authHeaders, to: newValue) }
    }

    /// Additional header fields of the request that opens the WebSocket. They must be set before the client is created. The default is empty.
    ///
    /// A server that allows certain origins, such as Reverb with `allowed_origins`, rejects a client without the field `Origin` with the code
    /// 4009: `options.headers = ["Origin": "https://example.com"]`. A socket of your own has the fields of its request instead.
    public var headers: [String: String] {
        get { self.values.read { $0.headers } }
        set { self.values.set(\.headers, to: newValue) }
    }

    /// Whether the client connects when it is created. The default is `false`.
    public var connectAutomatically: Bool {
        get { self.values.read { $0.connectAutomatically } }
        set { self.values.set(\.connectAutomatically, to: newValue) }
    }

    /// Whether the client reconnects automatically, under its name in libPusher; see ``autoReconnect``.
    public var reconnectAutomatically: Bool {
        get { self.autoReconnect }
        set { self.autoReconnect = newValue }
    }

    /// The delay before each reconnect in seconds, or `nil` for 0, 1, 4, 9 and so on.
    public var reconnectDelay: TimeInterval? {
        get { self.values.read { $0.reconnectDelay } }
        set { self.values.set(\.reconnectDelay, to: newValue) }
    }

    /// The time in seconds without a connection after which ``PusherConnection/phase`` changes to ``PusherConnectionPhase/unavailable``. The
    /// default is 30.
    public var unavailableTimeout: TimeInterval {
        get { self.values.read { $0.unavailableTimeout } }
        set { self.values.set(\.unavailableTimeout, to: newValue) }
    }

    /// The delay in seconds between attempts in the phase ``PusherConnectionPhase/unavailable``, or `nil` for the same delays as before.
    public var unavailableRetryInterval: TimeInterval? {
        get { self.values.read { $0.unavailableRetryInterval } }
        set { self.values.set(\.unavailableRetryInterval, to: newValue) }
    }

    /// The URL of the service for push notifications; see ``NativePusher``.
    public var pushServiceURL: URL {
        get { self.values.read { $0.pushServiceURL } }
        set { self.values.set(\.pushServiceURL, to: newValue) }
    }

    /// The time limit for one attempt to connect in seconds. The default is 15. A change applies to the next attempt.
    public var connectTimeout: TimeInterval {
        get { self.values.read { $0.connectTimeout } }
        set { self.values.set(\.connectTimeout, to: newValue) }
    }

    /// The time limit for one subscription in seconds, including its authorization. The default is 30. A change applies from the next attempt
    /// to connect.
    public var subscriptionTimeout: TimeInterval {
        get { self.values.read { $0.subscriptionTimeout } }
        set { self.values.set(\.subscriptionTimeout, to: newValue) }
    }

    /// Whether names of channels are checked, so that a subscription fails whose name the Pusher service would reject. The default is `true`.
    ///
    /// Set it to `false`, before the client is created, for a server that allows longer names, or other characters than letters, digits and
    /// `_-=@,.;`.
    public var validatesChannelNames: Bool {
        get { self.values.read { $0.validatesChannelNames } }
        set { self.values.set(\.validatesChannelNames, to: newValue) }
    }

    /// The transports that are used instead of the standard ones, for example with a proxy, or with certificates of your own. They must be set
    /// before the client is created. The default is `nil`.
    ///
    /// With transports, requests to the ``authEndpoint`` use their HTTP transport, unless a session of your own is set as
    /// ``PusherConnection/URLSession``.
    public var transports: Transports? {
        get { self.values.read { $0.transports } }
        set { self.values.set(\.transports, to: newValue) }
    }
}

extension PusherClientOptions {
    /// The ``headers`` in the order of their names.
    var httpHeaders: HTTPHeaders {
        var headers = HTTPHeaders()
        for (name, value) in self.headers.sorted(by: { $0.key < $1.key }) { headers.add(name, value) }
        return headers
    }
}
