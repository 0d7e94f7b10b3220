import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Identifies a hub of a server.
struct HubID: Hashable, Sendable {
    var rawValue: Int
}

/// What is known about a connection, and doesn't change after the handshake.
struct HubConnectionInfo: Sendable {
    let id: ConnectionID
    let hub: HubID
    let connectionID: String
    let userID: String?
    let request: HTTPRequestHead
    let format: HubFormat
}

/// A call of the user's code for a connection: a method, or a handler of the connection's beginning or end.
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

    // Unstructured, because the call begins on the thread of the transport. It ends when the user's code returns, which is cancelled when
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

    /// Cancels the task. Not called under a lock, because it runs the cancellation handlers of the user's code.
    func cancel() {
        let task = self.state.withLock { state -> Task<Void, Never>? in
            defer { state = .cancelled }
            if case .running(let task) = state { return task }
            return nil
        }
        task?.cancel()
    }
}

/// A first-in, first-out queue.
struct HubQueue<Element: Sendable>: Sendable {
    private var elements: [Element?] = []
    private var start = 0

    var count: Int { self.elements.count - self.start }
    var first: Element? { self.start < self.elements.count ? self.elements[self.start] : nil }

    mutating func append(_ element: Element) { self.elements.append(element) }

    mutating func popFirst() -> Element? {
        guard self.start < self.elements.count else { return nil }
        defer { self.advance() }
        return self.elements[self.start].take()
    }

    /// Removes the first element that satisfies a predicate.
    mutating func removeFirst(where predicate: (Element) -> Bool) -> Element? {
        guard let index = self.elements[self.start...].firstIndex(where: { $0.map(predicate) ?? false }) else { return nil }
        return self.elements.remove(at: index)
    }

    mutating func removeAll(where predicate: (Element) -> Bool) {
        self.elements = self.elements[self.start...].filter { $0.map { !predicate($0) } ?? false }
        self.start = 0
    }

    func contains(where predicate: (Element) -> Bool) -> Bool { self.elements[self.start...].contains { $0.map(predicate) ?? false } }

    /// Moves the remaining elements only when half of them have been removed.
    private mutating func advance() {
        self.start += 1
        guard 2 * self.start >= self.elements.count else { return }
        self.elements.removeFirst(self.start)
        self.start = 0
    }
}
