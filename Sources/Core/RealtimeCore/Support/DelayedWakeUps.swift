import RealtimeSystem

/// The tasks that a thread resumes when it has completed what it does.
///
/// A task that was resumed continues on another thread. If it had been resumed in the middle of the events that its thread processes, what it
/// does next would compete with the rest of them.
package enum DelayedWakeUps {
    /// The tasks of the outermost call of ``delaying(_:)`` on each thread.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        precondition(pthread_key_create(&key, nil) == 0, "no thread-specific key left")
        return key
    }()

    /// Resumes a task, at the end of the outermost call of ``delaying(_:)`` on this thread if there is one.
    package static func resume(_ wakeUp: WakeUp) {
        guard let delayed = pthread_getspecific(self.key)?.assumingMemoryBound(to: [WakeUp].self) else { return wakeUp.resume() }
        delayed.pointee.append(wakeUp)
    }

    /// Resumes the tasks that this thread has delayed.
    static func resumeNow() {
        guard let delayed = pthread_getspecific(self.key)?.assumingMemoryBound(to: [WakeUp].self) else { return }
        var wakeUps: [WakeUp] = []
        swap(&wakeUps, &delayed.pointee)
        for wakeUp in wakeUps { wakeUp.resume() }
    }

    /// Runs a closure, and then resumes the tasks that it has resumed.
    package static func delaying(_ body: () -> Void) {
        guard pthread_getspecific(self.key) == nil else { return body() }
        var delayed: [WakeUp] = []
        withUnsafeMutablePointer(to: &delayed) { pointer in
            pthread_setspecific(self.key, pointer)
            body()
            pthread_setspecific(self.key, nil)
        }
        for wakeUp in delayed { wakeUp.resume() }
    }
}
