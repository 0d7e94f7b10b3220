import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Identifies a hub of a server.
struct HubID: Hashable, Sendable {
    var rawValue: Int
}

/// The immutable properties of an established connection, which its calls share.
final class HubConnectionInfo: Sendable {
    let id: ConnectionID
    let hub: HubID
    let connectionID: String
    let userID: String?
    let request: HTTPRequestHead
    let format: HubFormat

    init(id: ConnectionID, hub: HubID, connectionID: String, userID: String?, request: HTTPRequestHead, format: HubFormat) {
        (self.id, self.hub, self.connectionID, self.userID) = (id, hub, connectionID, userID)
        (self.request, self.format) = (request, format)
    }
}

/// A call of the application's code for a connection: a method, or a handler of the connection's beginning or end.
///
/// It runs in a task of its own. Cancelling the call before the task exists cancels the task when it starts, so that every call that was
/// started also ends, and the machine learns when.
final class HubCall: Sendable {
    enum Operation: Sendable {
        case connected
        /// - Parameter error: Why the connection ended, unless it was closed in an orderly way.
        case disconnected(error: String?)
        case invocation(HubInvocation, isStreaming: Bool)
    }

    private enum TaskState: Sendable {
        case waiting
        case cancelled
        case running(Task<Void, Never>)
    }

    let number: UInt64
    let connection: HubConnectionInfo
    let operation: Operation
    private let state = Lock(TaskState.waiting)

    init(_ number: UInt64, of connection: HubConnectionInfo, _ operation: Operation) {
        self.number = number
        self.connection = connection
        self.operation = operation
    }

    /// Starts a task. A simulation runs the tasks itself.
    typealias TaskStarter = @Sendable (_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never>

    // Unstructured, because the call begins on the thread of the transport. It ends when the application's code returns, which is cancelled when
    // the client cancels the call or its connection ends.
    static let unstructured: TaskStarter = { body in Task { await body() } }

    /// Runs the call in a task.
    func start(_ startTask: TaskStarter, _ body: @escaping @Sendable () async -> Void) {
        let task = startTask(body)
        let isCancelled = self.state.withLock { state in
            if case .cancelled = state { return true }
            state = .running(task)
            return false
        }
        if isCancelled { task.cancel() }
    }

    /// Cancels the task. Not called under a lock, because it runs the cancellation handlers of the application's code.
    func cancel() {
        let task = self.state.withLock { state -> Task<Void, Never>? in
            defer { state = .cancelled }
            if case .running(let task) = state { return task }
            return nil
        }
        task?.cancel()
    }
}
