internal import CRealtimeSystem

/// State that only the thread of an event loop accesses.
///
/// Its owner declares it as `nonisolated(unsafe) private var`. That is safe because one thread at a time can reach the state: until
/// ``bind()`` the thread that creates the owner, and from then on the loop's thread. The queue of the loop's jobs synchronizes the two.
/// A thread that runs in place of the loop's, with ``EventLoop/whileAsleep(_:)``, holds the lock that the loop's thread needs to continue.
/// Debug builds assert this on every access. In release builds, the type stores only the state.
struct LoopBound<State>: ~Copyable {
    private var state: State
    #if DEBUG
    private var loop: UnsafeRawPointer?
    #endif

    /// Creates state that belongs to its creator until ``bind()``.
    init(_ state: State) {
        self.state = state
    }

    /// Creates state that belongs to a loop.
    init(_ state: State, of loop: EventLoop) {
        self.state = state
        #if DEBUG
        self.loop = UnsafeRawPointer(Unmanaged.passUnretained(loop).toOpaque())
        #endif
    }

    /// Hands the state over to the loop on whose thread it is called.
    @inline(__always)
    mutating func bind() {
        #if DEBUG
        self.loop = realtime_loop_of_thread()
        assert(self.loop != nil, "bind() must be called on the thread of an event loop")
        #endif
    }

    /// The state. A read copies the parts that are used, so that no access is in progress while the owner calls other code.
    @inline(__always)
    var value: State {
        get {
            self.assertOwnership()
            return self.state
        }
        _modify {
            self.assertOwnership()
            yield &self.state
        }
    }

    @inline(__always)
    private func assertOwnership() {
        #if DEBUG
        assert(self.loop == nil || self.loop == realtime_loop_of_thread(), "the state belongs to the thread of another event loop")
        #endif
    }
}
