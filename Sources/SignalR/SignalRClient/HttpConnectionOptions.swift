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
    /// The client for HTTP requests; `nil` for the package's own client. WebSockets don't use it.
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
        let transport = self.transport ?? .all
        guard transport.contains(.webSockets) else {
            let message =
                transport.intersection(.all).isEmpty
                ? "The option transport allows no transport. Use .webSockets."
                : "This client has only the transport WebSockets, which the option transport doesn't allow. Use .webSockets."
            throw .unsupportedTransport(message)
        }
        if self.skipNegotiation, self.transport != .webSockets {
            throw .invalidOperation("The negotiation can only be skipped if the transport is exactly .webSockets.")
        }
        var configuration: HubConfiguration
        do {
            configuration = HubConfiguration(try Endpoint(url), transports: transports)
        } catch {
            throw .invalidUrl(error.message)
        }
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
    /// Server-Sent Events. Not available in this version.
    public static let serverSentEvents = HttpTransportType(rawValue: 2)
    /// Long polling. Not available in this version.
    public static let longPolling = HttpTransportType(rawValue: 4)

    static let all: HttpTransportType = [.webSockets, .serverSentEvents, .longPolling]
}

/// The options of stateful reconnect. Not available in this version.
public struct StatefulReconnectOptions: Sendable {
    /// The maximum size of the messages that wait for an acknowledgment, in bytes; `nil` for the default.
    public var bufferSize: Int?

    /// Creates options with the default values.
    public init() {}
}
