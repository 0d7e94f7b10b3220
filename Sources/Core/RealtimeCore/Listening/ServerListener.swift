import RealtimeSystem

/// The listener of a server, which the server starts and stops. Releasing it stops the listener.
package final class ServerListener: Sendable {
    private let lifecycle = Lock(Lifecycle<any Listener>())

    package init() {}

    deinit {
        guard let listener = self.lifecycle.withLock({ $0.running }) else { return }
        // Stopping is asynchronous, which a deinitializer cannot be. The task holds only the listener, and ends when it has stopped.
        Task { await listener.stop() }
    }

    /// Starts a listener.
    ///
    /// - Parameters:
    ///   - listener: A listener that hasn't been started.
    ///   - handler: The handler of the server's clients.
    ///   - closeConnections: Closes the connections of clients, if the server is stopped meanwhile.
    ///   - endConnections: Ends the connections that no client can reach any more, after the listener has stopped.
    /// - Throws: The error of the listener; one with the code `unsupported` if the server is already started, or one with the code
    ///   `closed` if it was stopped meanwhile.
    package func start(
        _ listener: any Listener, _ handler: any ListenerHandler, closeConnections: () -> Void, endConnections: () -> Void
    ) async throws(TransportError) -> ListenerAddress {
        guard self.lifecycle.withLock({ $0.start() }) else {
            throw TransportError(.unsupported, "The server is already started. Call stop() first, or create another server.")
        }
        let address: ListenerAddress
        do throws(TransportError) {
            address = try await listener.start(handler)
        } catch {
            self.ended()
            throw error
        }
        guard self.lifecycle.withLock({ $0.started(listener) }) else {
            await self.stop(listener, closeConnections, endConnections)
            throw TransportError(.closed, "The server was stopped while it was starting.")
        }
        return address
    }

    /// Closes the connections of clients and stops the listener. If it is being started or stopped, waits until it has stopped.
    ///
    /// - Parameters:
    ///   - closeConnections: Closes the connections. Also called without a listener: the connections can be those of another one.
    ///   - endConnections: Ends the connections that no client can reach any more, after the listener has stopped. Not called without a listener.
    package func stop(closeConnections: () -> Void, endConnections: () -> Void) async {
        let waiter = Waiter<Void>()
        switch self.lifecycle.withLock({ $0.stop(waiter) }) {
        case .none: closeConnections()
        case .wait: await waiter.value()
        case .stop(let listener): await self.stop(listener, closeConnections, endConnections)
        }
    }

    private func stop(_ listener: any Listener, _ closeConnections: () -> Void, _ endConnections: () -> Void) async {
        closeConnections()
        await listener.stop()
        endConnections()
        self.ended()
    }

    private func ended() {
        for waiter in self.lifecycle.withLock({ $0.ended() }) { waiter.fulfill(())?.resume() }
    }
}
