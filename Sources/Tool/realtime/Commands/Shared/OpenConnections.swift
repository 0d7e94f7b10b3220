import RealtimeCore
import RealtimeSystem

/// Waits for the end of a client's connections, so that the process doesn't exit before everything that was sent has been written.
final class OpenConnections: Sendable {
    /// The time limit for a server that doesn't respond to a close frame.
    private static let limit = Duration.seconds(2)

    private struct State: Sendable {
        var open: Set<ConnectionID> = []
        var waiter: Waiter<Void>?
    }

    private let state = Lock(State())

    /// Follows the connections of a transport.
    func follow(_ transport: inout any WebSocketTransport) {
        transport = TracingTransport(transport) { self.trace($0, $1) }
    }

    /// Follows a connection, for connections that aren't WebSockets.
    func trace(_ id: ConnectionID, _ action: ConnectionAction) {
        let waiter = self.state.withLock { state -> Waiter<Void>? in
            switch action {
            case .opened: state.open.insert(id)
            case .abandoned, .receivedClose, .ended: state.open.remove(id)
            case .sent, .received, .sentClose: return nil
            }
            return state.open.isEmpty ? state.waiter : nil
        }
        waiter?.fulfill(())?.resume()
    }

    /// Waits for at most two seconds, also in a task that is cancelled.
    func waitUntilClosed() async {
        let waiter = Waiter<Void>()
        let isClosed = self.state.withLock { state in
            state.waiter = waiter
            return state.open.isEmpty
        }
        if isClosed { return }
        // The timer isn't part of the command's task, whose cancellation would end the sleep. It ends with the wait.
        let timer = Task {
            try? await Task.sleep(for: Self.limit)
            waiter.fulfill(())?.resume()
        }
        await waiter.value()
        timer.cancel()
    }
}
