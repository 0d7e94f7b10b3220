/// The parts of a server inside a program that are the same for every protocol: its connections, its listener and its events.
///
/// The owner must call ``shutDown()`` when it is released. Releasing this object then stops the listener.
package final class EmbeddedServer<Machine: EmbeddedServerMachine>: Sendable {
    package let connections: ServedConnections<Machine>
    /// The handler of the server's clients.
    package let handler: any ListenerHandler
    private let listener = ServerListener()
    private let endConnections: @Sendable () -> Void

    /// Creates a server.
    ///
    /// - Parameters:
    ///   - connections: The connections of the server.
    ///   - handler: The handler of the server's clients, which adopts the connections. It rejects everything when they are shut down.
    ///   - endConnections: Ends the connections that no client can reach any more. Called after the server's listener has stopped.
    package init(
        _ connections: ServedConnections<Machine>, handler: any ListenerHandler, endConnections: @escaping @Sendable () -> Void = {}
    ) {
        self.connections = connections
        self.handler = handler
        self.endConnections = endConnections
    }

    /// Closes all connections, because the owner is released.
    package func shutDown() { self.connections.shutDown() }

    /// Starts accepting clients.
    ///
    /// - Parameter listener: A listener that hasn't been started.
    /// - Returns: The address at which clients reach the server.
    /// - Throws: The error of the listener; one with the code `unsupported` if the server is already started, or one with the code
    ///   `closed` if ``stop()`` was called meanwhile.
    package func start(on listener: any Listener) async throws(TransportError) -> ListenerAddress {
        try await self.listener.start(
            listener, self.handler, closeConnections: { self.connections.driver.stop() }, endConnections: self.listenerStopped)
    }

    /// Stops the machine and the listener. If the server is being started or stopped, waits until it has stopped.
    package func stop() async {
        // A server that shares a listener can have connections without having started one.
        await self.listener.stop(closeConnections: { self.connections.driver.stop() }, endConnections: self.listenerStopped)
    }

    private func listenerStopped() {
        // Clients may have been admitted since the first time.
        self.connections.driver.stop()
        self.endConnections()
    }

    /// Returns a sequence of the server's events from now on. It buffers up to 10,000 events, and then drops the oldest.
    ///
    /// - Parameter limit: The size at which events are dropped as well.
    package func events(_ limit: ByteLimit<Machine.Event>) -> EventSequence<Machine.Event> {
        self.connections.driver.makeSequence(.dropOldest(10_000), byteLimit: limit, lifetime: .client) { events, output in
            output.append(contentsOf: events)
        } register: { machine, id, effects in
            effects.routes.add(id, to: &machine.eventRoute)
        }
    }
}
