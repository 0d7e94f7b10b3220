import Dispatch
import RealtimeSystem

/// A listener of a client's events.
///
/// ```swift
/// let listener = primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
/// primus.removeListener("data", listener)
/// ```
/// Releasing the object doesn't remove the listener.
public final class PrimusListener: Sendable {
    /// The name of the event.
    public let event: String
    /// Whether the listener is called for the next event only.
    let isOnce: Bool
    let queue: PrimusQueue
    /// Calls the listener, where it is to be called.
    ///
    /// - Returns: Why the listener wasn't called; `nil` if it was.
    let call: @Sendable ([PrimusArgument]) -> ListenerArguments.Mismatch?
    /// Whether it was logged that the listener takes values of another kind than those that arrive.
    let hasWarned = Lock(false)
    /// The identity of a listener of Objective-C.
    private let identity = Lock<(any Sendable)?>(nil)

    init(_ event: String, isOnce: Bool, on queue: PrimusQueue, call: @escaping @Sendable ([PrimusArgument]) -> ListenerArguments.Mismatch?)
    {
        (self.event, self.isOnce, self.queue, self.call) = (event, isOnce, queue, call)
    }

    var owner: (any Sendable)? {
        get { self.identity.withLock { $0 } }
        set { self.identity.withLock { $0 = newValue } }
    }
}

/// A queue on which listeners are called, which is identified by its object.
struct PrimusQueue: Hashable, Sendable {
    let queue: DispatchQueue

    static let main = PrimusQueue(queue: .main)

    static func == (lhs: Self, rhs: Self) -> Bool { lhs.queue === rhs.queue }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self.queue)) }
}

/// The listeners of a client, in the order in which they were added.
struct PrimusListenerTable: Sendable {
    private var listeners: [String: [PrimusListener]] = [:]

    mutating func add(_ listener: PrimusListener) { self.listeners[listener.event, default: []].append(listener) }

    mutating func remove(_ listener: PrimusListener) {
        self.listeners[listener.event]?.removeAll { $0 === listener }
        if self.listeners[listener.event]?.isEmpty == true { self.listeners[listener.event] = nil }
    }

    mutating func remove(event: String) { self.listeners[event] = nil }
    mutating func removeAll() { self.listeners = [:] }

    /// The queues of all listeners.
    var queues: Set<PrimusQueue> { Set(self.listeners.values.joined().map(\.queue)) }

    /// The listeners of an event on a queue.
    func of(_ event: String, on queue: PrimusQueue) -> [PrimusListener] { self.listeners[event]?.filter { $0.queue == queue } ?? [] }

    /// The queues of the listeners of an event, in order.
    func queues(of event: String) -> [PrimusQueue] {
        (self.listeners[event] ?? []).reduce(into: []) { if !$0.contains($1.queue) { $0.append($1.queue) } }
    }

    func all(of event: String) -> [PrimusListener] { self.listeners[event] ?? [] }

    /// Prepares the call of a listener: one that is called once is removed.
    ///
    /// - Returns: `false` if the listener was removed, and isn't called.
    mutating func take(_ listener: PrimusListener) -> Bool {
        guard self.listeners[listener.event]?.contains(where: { $0 === listener }) == true else { return false }
        if listener.isOnce { self.remove(listener) }
        return true
    }
}
