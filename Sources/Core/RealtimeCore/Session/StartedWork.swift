import RealtimeSystem

/// The work of a driver: the work that is about to begin, and how to cancel the work that runs.
///
/// Work may finish before the call that begins it returns, and be followed by more work. If that began inside the call, work that always
/// finishes immediately would nest calls without bound. So each thread that begins work has a queue, and begins what follows afterwards. A
/// queue for each thread, because a call returns only after the work that it caused has begun: in memory, its effects are then complete.
struct StartedWork<Work: Sendable>: Sendable {
    private enum Stage: Sendable {
        case starting
        case running(cancel: (@Sendable () -> Void)?)
    }

    private var stages: [WorkID: Stage] = [:]
    private var queues: [ThreadID: FIFO<(id: WorkID, work: Work)>] = [:]

    func contains(_ id: WorkID) -> Bool { self.stages[id] != nil }

    /// Adds work that a thread is to begin.
    ///
    /// - Returns: Whether the thread has to call ``next(on:)`` until it returns `nil`. Otherwise, it does that already.
    mutating func add(_ id: WorkID, _ work: Work, on thread: ThreadID) -> Bool {
        self.stages[id] = .starting
        let isBeginning = self.queues[thread] != nil
        self.queues[thread, default: FIFO()].append((id, work))
        return !isBeginning
    }

    /// Returns the next work that a thread is to begin, and whether it was cancelled in the meantime: also cancelled work is released after
    /// the lock, because it may own objects of the application.
    mutating func next(on thread: ThreadID) -> (id: WorkID, work: Work, isCancelled: Bool)? {
        guard let (id, work) = self.queues[thread]?.popFirst() else {
            self.queues[thread] = nil
            return nil
        }
        return (id, work, !self.contains(id))
    }

    /// Work was begun.
    ///
    /// - Returns: False if it has finished or was cancelled already.
    mutating func began(_ id: WorkID, cancel: (@Sendable () -> Void)?) -> Bool {
        guard self.contains(id) else { return false }
        self.stages[id] = .running(cancel: cancel)
        return true
    }

    /// Removes work that has finished or is cancelled.
    ///
    /// - Returns: `nil` if it isn't running. Otherwise, a closure that cancels it, if there is one; release it after the lock.
    mutating func remove(_ id: WorkID) -> (@Sendable () -> Void)?? {
        switch self.stages.removeValue(forKey: id) {
        case nil: .none
        case .starting?: .some(nil)
        case .running(let cancel)?: .some(cancel)
        }
    }
}
