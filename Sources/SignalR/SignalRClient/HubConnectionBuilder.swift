public import Foundation
public import RealtimeCore
import RealtimeTransports
public import SignalRHubs

/// Creates a ``HubConnection``.
///
/// ```swift
/// let connection = HubConnectionBuilder()
///     .withUrl(url: "https://example.org/chat")
///     .withAutomaticReconnect()
///     .build()
/// ```
/// Each method changes the builder and returns it. Of several calls of the same method, the last one counts, except for
/// ``withConfiguration(_:)``.
public class HubConnectionBuilder {
    private var url: String?
    private var httpOptions = HttpConnectionOptions()
    private var hubProtocol = HubProtocolType.json
    private var keepAliveInterval = Duration.seconds(15)
    private var serverTimeout = Duration.seconds(30)
    private var retry = HubRetryPolicy.none
    private var retryPolicy: (any RetryPolicy)?
    private var refreshesAuthentication = false
    private var refreshBeforeExpiration = Duration.seconds(300)
    private var statefulReconnect: HubStatefulReconnect?
    private var transports = Transports.standard
    private var logLevel: LogLevel?
    private var logHandler: (any LogHandler)?
    private var changes: [(inout HubConfiguration) -> Void] = []

    /// Creates a builder with the default settings.
    public init() {}

    /// Sets the lowest level of messages that are logged. The default is ``LogLevel/information``.
    public func withLogLevel(logLevel: LogLevel) -> HubConnectionBuilder {
        self.logLevel = logLevel
        return self
    }

    /// Sets the destination of log messages. By default, they are written to the unified logging system on Apple platforms, and to standard
    /// error elsewhere.
    public func withLogHandler(logHandler: any LogHandler) -> HubConnectionBuilder {
        self.logHandler = logHandler
        return self
    }

    /// Sets the encoding of messages. The default is JSON.
    public func withHubProtocol(hubProtocol: HubProtocolType) -> HubConnectionBuilder {
        self.hubProtocol = hubProtocol
        return self
    }

    /// Sets the time, in seconds, without received messages after which the connection counts as lost. The default is 30.
    ///
    /// It should be at least twice the keep-alive interval of the server.
    public func withServerTimeout(serverTimeout: TimeInterval) -> HubConnectionBuilder {
        self.serverTimeout = Duration(seconds: serverTimeout)
        return self
    }

    /// Sets the time, in seconds, without sent messages after which the client sends a ping. The default is 15.
    public func withKeepAliveInterval(keepAliveInterval: TimeInterval) -> HubConnectionBuilder {
        self.keepAliveInterval = Duration(seconds: keepAliveInterval)
        return self
    }

    /// Sets the URL of the hub.
    ///
    /// - Parameter url: A URL with the scheme `http`, `https`, `ws` or `wss`. If it is invalid, ``HubConnection/start()`` throws an error
    ///   that says why.
    public func withUrl(url: String) -> HubConnectionBuilder {
        self.url = url
        return self
    }

    /// Sets the URL of the hub, and the transports that may be used.
    ///
    /// - Parameters:
    ///   - url: A URL with the scheme `http`, `https`, `ws` or `wss`.
    ///   - transport: One or several transports.
    public func withUrl(url: String, transport: HttpTransportType) -> HubConnectionBuilder {
        self.url = url
        self.httpOptions.transport = transport
        return self
    }

    /// Sets the URL of the hub, and the options of its transports.
    ///
    /// - Parameters:
    ///   - url: A URL with the scheme `http`, `https`, `ws` or `wss`.
    ///   - options: The options, which replace the options of earlier calls.
    public func withUrl(url: String, options: HttpConnectionOptions) -> HubConnectionBuilder {
        self.url = url
        self.httpOptions = options
        return self
    }

    /// Reconnects after a loss: makes up to four attempts, after 0, 2, 10 and 30 seconds.
    public func withAutomaticReconnect() -> HubConnectionBuilder {
        (self.retry, self.retryPolicy) = (.standard, nil)
        return self
    }

    /// Reconnects after a loss, when a policy says so.
    public func withAutomaticReconnect(retryPolicy: any RetryPolicy) -> HubConnectionBuilder {
        self.retryPolicy = retryPolicy
        return self
    }

    /// Reconnects after a loss.
    ///
    /// - Parameter retryDelays: The delays before the attempts, in seconds. After the last one, the connection is closed.
    public func withAutomaticReconnect(retryDelays: [TimeInterval]) -> HubConnectionBuilder {
        (self.retry, self.retryPolicy) = (.delays(retryDelays.map(Duration.init(seconds:))), nil)
        return self
    }

    /// Reconnects after a loss, when a policy says so.
    public func withAutomaticReconnect(_ retryPolicy: any RetryPolicy) -> HubConnectionBuilder {
        self.withAutomaticReconnect(retryPolicy: retryPolicy)
    }

    /// Reconnects after a loss.
    ///
    /// - Parameter retryDelays: The delays before the attempts, in seconds. After the last one, the connection is closed.
    public func withAutomaticReconnect(_ retryDelays: [TimeInterval]) -> HubConnectionBuilder {
        self.withAutomaticReconnect(retryDelays: retryDelays)
    }

    /// Reconnects after each loss, with an unlimited number of attempts, after random delays that grow.
    public func withAutomaticReconnect(_ backoff: Backoff) -> HubConnectionBuilder {
        (self.retry, self.retryPolicy) = (.backoff(backoff), nil)
        return self
    }

    /// Continues the connection after the loss of its WebSocket, without a lost or repeated message, if the server allows it.
    ///
    /// - Parameter bufferSize: The size of the messages that wait for an acknowledgment, in bytes, at which calls wait; `nil` for 100,000.
    public func withStatefulReconnect(bufferSize: Int? = nil) -> HubConnectionBuilder {
        self.statefulReconnect = HubStatefulReconnect()
        if let bufferSize { self.statefulReconnect?.bufferBytes = bufferSize }
        return self
    }

    /// Continues the connection after the loss of its WebSocket, without a lost or repeated message, if the server allows it.
    public func withStatefulReconnect(options: StatefulReconnectOptions) -> HubConnectionBuilder {
        self.withStatefulReconnect(bufferSize: options.bufferSize)
    }

    /// Refreshes the authentication of the connection before it expires, if the server reports a lifetime.
    ///
    /// Requires a negotiation, and a server with authentication refresh, such as .NET 11. A failed refresh isn't repeated; see
    /// ``HubConnection/onAuthenticationRefreshFailed(handler:)`` and ``HubConnection/refreshAuthentication()``.
    ///
    /// - Parameters:
    ///   - enableAutoRefresh: Whether the authentication is refreshed automatically.
    ///   - refreshBeforeExpiration: How long before its end the authentication is refreshed, in seconds. If this is more than half of the
    ///     lifetime, it is refreshed after half of it.
    public func withAuthenticationRefresh(
        enableAutoRefresh: Bool = true, refreshBeforeExpiration: TimeInterval = 300
    ) -> HubConnectionBuilder {
        self.refreshesAuthentication = enableAutoRefresh
        self.refreshBeforeExpiration = Duration(seconds: refreshBeforeExpiration)
        return self
    }

    /// Sets the WebSocket and HTTP transports, for example the transports of an in-memory network.
    public func withTransports(_ transports: Transports) -> HubConnectionBuilder {
        self.transports = transports
        return self
    }

    /// Changes settings of ``/SignalRHubs/HubClient`` for which the builder has no method, such as limits.
    ///
    /// ```swift
    /// builder.withConfiguration {
    ///     $0.retriesFirstStart = true
    ///     $0.messageLimit = 1 << 20
    /// }
    /// ```
    /// - Parameter change: Called by ``build()``, after all other settings were made. Those of several calls are called in order.
    public func withConfiguration(_ change: @escaping (inout HubConfiguration) -> Void) -> HubConnectionBuilder {
        self.changes.append(change)
        return self
    }

    /// Creates the connection. It doesn't connect until you call ``HubConnection/start()``.
    public func build() -> HubConnection {
        do throws(SignalRError) {
            return HubConnection(HubClient(try self.configuration()))
        } catch {
            // Never used to connect.
            let placeholder = Endpoint(scheme: "https", host: "invalid", port: 443)
            return HubConnection(HubClient(HubConfiguration(placeholder)), configurationError: error)
        }
    }

    private func configuration() throws(SignalRError) -> HubConfiguration {
        guard let url else { throw .invalidUrl("There is no URL. Call withUrl(url:) before build().") }
        var configuration = try self.httpOptions.configuration(url, self.transports)
        configuration.hubProtocol = self.hubProtocol
        configuration.keepAliveInterval = self.keepAliveInterval
        configuration.serverTimeout = self.serverTimeout
        configuration.refreshesAuthentication = self.refreshesAuthentication
        configuration.refreshBeforeExpiration = self.refreshBeforeExpiration
        configuration.statefulReconnect = self.statefulReconnect
        configuration.retry = self.retry
        if let retryPolicy {
            let serverTimeout = self.serverTimeout
            configuration.retry = .custom { context in
                let context = RetryContext(context, serverTimeout: serverTimeout)
                return retryPolicy.nextRetryInterval(retryContext: context).map(Duration.init(seconds:))
            }
        }
        configuration.log = LogSink(
            self.logHandler ?? self.httpOptions.logHandler, self.logLevel ?? self.httpOptions.logLevel,
            includesContent: self.httpOptions.logMessageContent ?? false)
        for change in self.changes { change(&configuration) }
        return configuration
    }
}

extension Duration {
    /// Creates a duration. Negative numbers and those that aren't numbers become zero, large ones 100 years.
    init(seconds: TimeInterval) {
        let limit: TimeInterval = 100 * 365 * 86400
        self = seconds > 0 ? .seconds(min(seconds, limit)) : .zero
    }
}
