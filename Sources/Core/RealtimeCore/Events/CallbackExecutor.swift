import RealtimeSystem

/// Where the callbacks of an application run.
///
/// Callbacks never run on the thread that reads from the connection, nor under a lock. Whatever the executor, the callbacks of one registration run
/// in order and one at a time. With executors of the same actor or serial queue, the events of a client or server arrive in their order across its
/// registrations, too. Clients have names of their own for this type.
public struct CallbackExecutor: Sendable {
    package let schedule: CallbackSchedule
    /// Whether closures run in the order in which they are scheduled, as far as this type knows.
    package let keepsOrder: Bool

    private init(keepsOrder: Bool, _ schedule: @escaping CallbackSchedule) {
        (self.schedule, self.keepsOrder) = (schedule, keepsOrder)
    }

    /// Creates an executor from a closure that runs another closure later, for example on a queue.
    ///
    /// The client calls the closure when events have arrived and no delivery is pending. The closure that it passes delivers all events that
    /// are waiting, and all events that arrive before it returns, up to those that another registration receives first. Then, the client calls
    /// `schedule` again for the events that follow.
    ///
    /// - Parameter schedule: Runs the closure that it receives, once. It is called on any thread, for one closure after another, and should
    ///   return immediately; it must not run the closure itself, because events would wait for the callback. If it runs the closures one at
    ///   a time and in this order, as a serial queue does, events keep their order across registrations.
    public init(_ schedule: @escaping @Sendable (_ run: @escaping @Sendable () -> Void) -> Void) {
        self.init(keepsOrder: true, schedule)
    }

    /// The threads on which tasks run that belong to no actor. Registrations have no order among each other.
    public static let tasks = CallbackExecutor(keepsOrder: false) { run in
        // An unstructured task, since a callback has no caller. One delivery is scheduled at a time, so tasks need no order.
        Task { run() }
    }

    /// The executor of an actor, so that callbacks may use its state with `assumeIsolated`.
    ///
    /// - Parameter actor: The actor, which the registration keeps alive.
    /// - Returns: The executor.
    public static func isolated(to actor: any Actor) -> CallbackExecutor {
        let queue = ActorQueue.of(actor)
        return CallbackExecutor { queue.schedule($0) }
    }

    /// The main actor.
    package static let main = CallbackExecutor { run in
        // An unstructured task, since a callback has no caller. A task whose closure is isolated is enqueued on its actor immediately, in order.
        Task { @MainActor in run() }
    }

    /// Returns a callback that is called where the main actor runs.
    package static func onMain<Element: Sendable>(
        _ callback: @escaping @MainActor @Sendable (Element) -> Void
    ) -> @Sendable (Element) -> Void {
        { element in MainActor.assumeIsolated { callback(element) } }
    }
}

// It isn't named `Observation`, because code that macros such as `@Observable` generate names the module `Observation`.
/// The registration of a callback. Releasing it ends the callbacks.
///
/// It doesn't keep its client alive. Clients have names of their own for this type.
public final class CallbackObservation: Sendable {
    private let delivery: any CallbackDelivery

    init(_ delivery: any CallbackDelivery) {
        self.delivery = delivery
    }

    deinit { self.delivery.cancel() }

    /// Ends the callbacks.
    ///
    /// If you call this method where the callbacks run, for example on the main actor, none is called after it has returned. Elsewhere, one may
    /// still be running. Calling it again has no effect.
    public func cancel() { self.delivery.cancel() }
}

extension CallbackObservation: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension CallbackExecutor: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}
