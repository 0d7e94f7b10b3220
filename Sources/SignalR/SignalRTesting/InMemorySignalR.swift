public import RealtimeCore
public import RealtimeTesting
public import SignalRHubs
public import SignalRServer

/// A server, a network and a clock for a test, and the clients that the test creates.
///
/// ```swift
/// let signalR = try await InMemorySignalR()
/// signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
/// let client = signalR.client("/chat")
/// try await client.start()
/// let sum: Int = try await client.invoke("Add", 1, 2)
/// ```
/// Clients and the server are connected by an in-memory network, without sockets, over WebSockets, Server-Sent Events or long polling. Methods
/// of hubs, handlers and hooks run in tasks; wait for their effects with `eventually(_:within:fileID:line:_:)`.
///
/// Every instance is independent of all others, so that tests can run in parallel. Keep a reference to it until the end of the test:
/// the server closes its connections when it is released.
public struct InMemorySignalR: Sendable {
    /// The clock of the server, the clients and the network. It advances only when the test advances it.
    public let clock: ManualClock
    /// The network, which can be interrupted.
    public let network: InMemoryNetwork
    /// The server, which has been started.
    public let server: SignalRServer
    /// The address of the server on the network.
    public let address: ListenerAddress

    /// Creates a server, and starts it on a network of its own.
    ///
    /// - Parameters:
    ///   - configuration: The timing and the limits of the server.
    ///   - hooks: Closures that decide what the server accepts.
    ///   - log: The destination of the server's log messages. By default, they are discarded.
    ///   - clock: The clock of the server, the clients and the network.
    /// - Throws: A `TransportError` if the server can't be started.
    public init(
        configuration: SignalRServerConfiguration = SignalRServerConfiguration(), hooks: SignalRServerHooks = SignalRServerHooks(),
        log: LogSink = .none, clock: ManualClock = ManualClock()
    ) async throws(TransportError) {
        self.clock = clock
        self.network = InMemoryNetwork(clock: clock)
        self.server = SignalRServer(network: self.network, configuration: configuration, hooks: hooks, log: log)
        self.address = try await self.server.start(on: self.network.listener())
    }

    /// Returns the URL of a hub.
    ///
    /// - Parameter path: The path of the hub, such as `/chat`.
    public func url(_ path: String) -> String { "http://\(self.address.host):\(self.address.port)\(path)" }

    /// Returns the configuration of a client of a hub, for code that creates its client from a configuration. The client logs nothing.
    ///
    /// - Parameter path: The path of the hub.
    public func configuration(_ path: String) -> HubConfiguration {
        let endpoint = Endpoint(scheme: "http", host: self.address.host, port: self.address.port, target: path)
        var configuration = HubConfiguration(endpoint, transports: self.network.transports())
        configuration.log = .none
        return configuration
    }

    /// Creates a client of a hub. It doesn't connect until you call its `start(within:)`.
    ///
    /// - Parameter path: The path of the hub.
    public func client(_ path: String) -> HubClient { HubClient(self.configuration(path)) }

    /// Creates a client of a hub with a changed configuration. It doesn't connect until you call its `start(within:)`.
    ///
    /// - Parameters:
    ///   - path: The path of the hub.
    ///   - configure: A closure that changes the configuration before the client is created.
    /// - Throws: The error that `configure` throws.
    public func client(_ path: String, configure: (inout HubConfiguration) throws -> Void) rethrows -> HubClient {
        var configuration = self.configuration(path)
        try configure(&configuration)
        return HubClient(configuration)
    }
}

extension InMemorySignalR: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("address", self.address), ("server", self.server)] }
}
