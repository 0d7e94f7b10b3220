internal import RealtimeSystem
#if os(Linux)
internal import CRealtimeSystem
#endif

/// A thread of the system. Code that blocks runs on one, and not on the threads of Swift's tasks.
///
/// `@unchecked Sendable`: on Darwin the handle is a pointer, which is never dereferenced here.
struct PosixThread: @unchecked Sendable {
    private let handle: pthread_t

    /// Starts a thread. Returns `nil` if the system cannot create one.
    ///
    /// - Parameters:
    ///   - name: The name that debuggers show.
    ///   - stackSize: The size of the stack in bytes. The default suffices for the deepest JSON that is accepted, even with the large
    ///     frames of a sanitizer. Only the pages in use take memory.
    ///   - body: The code to run.
    init?(_ name: String, stackSize: Int = 2 << 20, _ body: @escaping @Sendable () -> Void) {
        var attributes = pthread_attr_t()
        guard pthread_attr_init(&attributes) == 0 else { return nil }
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setstacksize(&attributes, stackSize)
        let context = Unmanaged.passRetained(Start(name, body))
        #if canImport(Darwin)
        var handle: pthread_t?
        let failed = pthread_create(&handle, &attributes, { Start.run($0) }, context.toOpaque()) != 0
        #else
        var handle = pthread_t()
        let failed = pthread_create(&handle, &attributes, { Start.run($0!) }, context.toOpaque()) != 0
        #endif
        if failed {
            context.release()
            return nil
        }
        #if canImport(Darwin)
        self.handle = handle!
        #else
        self.handle = handle
        #endif
    }

    /// Blocks until the thread has ended.
    func join() { pthread_join(self.handle, nil) }

    /// Lets the system free the thread's resources when it ends. It cannot be joined afterwards.
    func detach() { pthread_detach(self.handle) }

    /// Blocks SIGPIPE on the calling thread, so that writing to a closed connection returns an error. Darwin has a socket option instead.
    static func blockBrokenPipeSignal() {
        #if !canImport(Darwin)
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        #endif
    }

    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }

        static func run(_ context: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
            let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
            #if canImport(Darwin)
            pthread_setname_np(start.name)
            #else
            realtime_name_thread(start.name)
            #endif
            start.body()
            return nil
        }
    }
}
