public import PrimusClient
public import PrimusServer
public import RealtimeCore
public import RealtimeTesting

/// A server, a network and a clock for a test, and the clients that the test creates.
///
/// ```swift
/// let primus = try await InMemoryPrimus()
/// let client = primus.client()
/// client.open()
/// try await client.opened(within: .seconds(5))
/// try primus.server.write(["celsius": 21.5])
/// ```
/// Clients and the server are connected by an in-memory network, without sockets: a call returns when all has happened that follows from it.
/// The exceptions run in tasks: callbacks of the server, and the requests with which a client learns what the server speaks, for the
/// specification and for the information of SockJS. Wait for their effects with `opened(within:)` or
/// `eventually(_:within:fileID:line:_:)`.
///
/// Every instance is independent of all others, so that tests can run in parallel. Keep a reference to it until the end of the test:
/// the server closes its connections when it is released.
public struct InMemoryPrimus: Sendable {
    /// The clock of the server, the clients and the network. It advances only when the test advances it.
    public let clock: ManualClock
    /// The network, which can be interrupted.
    public let network: InMemoryNetwork
    /// The server, which has been started.
    public let server: PrimusServer
    /// The address of the server on the network.
    public let address: ListenerAddress

    /// Creates a server, and starts it on a network of its own.
    ///
    /// - Parameters:
    ///   - configuration: The transformer, the parser, the timing and the limits of the server.
    ///   - log: The destination of the server's log messages. By default, they are discarded.
    ///   - clock: The clock of the server, the clients and the network.
    /// - Throws: A `TransportError` if the server can't be started.
    public init(
        configuration: PrimusServerConfiguration = PrimusServerConfiguration(), log: LogSink = .none, clock: ManualClock = ManualClock()
    ) async throws(TransportError) {
        self.clock = clock
        self.network = InMemoryNetwork(clock: clock)
        self.server = PrimusServer(network: self.network, configuration: configuration, log: log)
        self.address = try await self.server.start(on: self.network.listener())
    }

    /// The URL of the server.
    public var url: String { "http://\(self.address.host):\(self.address.port)\(self.server.configuration.pathname)" }

    /// Returns the configuration of a client, for code that creates its client from a configuration. The client logs nothing.
    public func configuration() -> PrimusConfiguration {
        let endpoint = Endpoint(
            scheme: "http", host: self.address.host, port: self.address.port, target: self.server.configuration.pathname)
        var configuration = PrimusConfiguration(endpoint, transports: self.network.transports())
        configuration.log = .none
        configuration.customParser = self.server.configuration.customParser
        return configuration
    }

    /// Creates a client. It doesn't connect until you call its `open()`.
    public func client() -> PrimusConnection { PrimusConnection(self.configuration()) }

    /// Creates a client with a changed configuration. It doesn't connect until you call its `open()`.
    ///
    /// - Parameter configure: A closure that changes the configuration before the client is created.
    /// - Throws: The error that `configure` throws.
    public func client(configure: (inout PrimusConfiguration) throws -> Void) rethrows -> PrimusConnection {
        var configuration = self.configuration()
        try configure(&configuration)
        return PrimusConnection(configuration)
    }
}

extension InMemoryPrimus: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("url", self.url)] }
}
