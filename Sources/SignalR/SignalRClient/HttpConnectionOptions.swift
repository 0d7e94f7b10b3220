public import Foundation
import RealtimeCore
import SignalRHubs

/// The options of the transports of a ``HubConnection``.
public struct HttpConnectionOptions: Sendable {
    /// The destination of log messages, unless the builder has one.
    public var logHandler: (any LogHandler)?
    /// The lowest level of messages that are logged, unless the builder has one.
    public var logLevel: LogLevel = .information
    /// Returns an access token, or `nil` for a request without one. Called in a task, once for each attempt to connect, once more if the
    /// server rejects the token with the status 401, and once for each refresh of the authentication, which needs a new token.
    public var accessTokenFactory: (@Sendable () async throws -> String?)?
    /// The client for HTTP requests: the negotiation, long polling, and what is sent over Server-Sent Events; `nil` for the package's own client.
    ///
    /// WebSockets don't use it. It can't stream responses, so Server-Sent Events fail to open with it, and another transport is used.
    public var httpClient: (any HttpClient)?
    /// The transports that may be used; `nil` for all.
    public var transport: HttpTransportType?
    /// Whether to connect to the URL of the hub without a negotiation. ``transport`` must be ``HttpTransportType/webSockets``.
    public var skipNegotiation: Bool = false
    /// Header fields for all requests. They replace fields of the client with the same name.
    public var headers: [String: String]?
    /// The time limit of an attempt to connect, in seconds; `nil` for 100.
    public var timeout: TimeInterval?
    /// Whether messages are logged with their content, at the level ``LogLevel/debug``.
    public var logMessageContent: Bool?

    /// Creates options with the default values.
    public init() {}

    /// Returns the configuration of the client.
    func configuration(_ url: String, _ transports: Transports) throws(SignalRError) -> HubConfiguration {
        let transport = (self.transport ?? .all).intersection(.all)
        if transport.isEmpty { throw .unsupportedTransport("The option transport allows no transport. Allow at least one.") }
        if self.skipNegotiation, self.transport != .webSockets {
            throw .invalidOperation("The negotiation can only be skipped if the transport is exactly .webSockets.")
        }
        var configuration: HubConfiguration
        do {
            configuration = HubConfiguration(try Endpoint(url), transports: transports)
        } catch {
            throw .invalidUrl(error.message)
        }
        configuration.allowedTransports = transport.kinds
        configuration.skipsNegotiation = self.skipNegotiation
        configuration.accessToken = self.accessTokenFactory
        configuration.accessTokenSource = .closure("accessTokenFactory")
        for (name, value) in (self.headers ?? [:]).sorted(by: { $0.key < $1.key }) { configuration.headers[name] = value }
        if let timeout { configuration.connectTimeout = Duration(seconds: timeout) }
        if let httpClient { configuration.transports.http = HttpClientTransport(httpClient) }
        return configuration
    }
}

/// A set of transports.
public struct HttpTransportType: OptionSet, Sendable {
    /// The bits of the set.
    public let rawValue: Int

    /// Creates a set from its bits.
    public init(rawValue: Int) {
        self.rawValue = rawValue
    }

    /// No transport.
    public static let none: HttpTransportType = []
    /// WebSockets.
    public static let webSockets = HttpTransportType(rawValue: 1)
    /// Server-Sent Events, which carry text only. They aren't used with MessagePack.
    public static let serverSentEvents = HttpTransportType(rawValue: 2)
    /// Long polling.
    public static let longPolling = HttpTransportType(rawValue: 4)

    static let all: HttpTransportType = [.webSockets, .serverSentEvents, .longPolling]

    var kinds: HubTransportKinds {
        var kinds: HubTransportKinds = []
        if self.contains(.webSockets) { kinds.insert(.webSockets) }
        if self.contains(.serverSentEvents) { kinds.insert(.serverSentEvents) }
        if self.contains(.longPolling) { kinds.insert(.longPolling) }
        return kinds
    }
}

/// The options of stateful reconnect; see ``HubConnectionBuilder/withStatefulReconnect(options:)``.
public struct StatefulReconnectOptions: Sendable {
    /// The maximum size of the messages that wait for an acknowledgment, in bytes; `nil` for the default.
    public var bufferSize: Int?

    /// Creates options with the default values.
    public init() {}
}
