internal import RealtimeSystem
#if os(Linux)
internal import CRealtimeSystem
#endif

/// A thread of our own: what blocks or waits for sockets stays off the threads that run Swift's tasks.
///
/// `@unchecked Sendable`: on Darwin the handle is a pointer that nobody looks into.
struct PosixThread: @unchecked Sendable {
    private let handle: pthread_t

    /// `nil` when the system has no thread left.
    ///
    /// - Parameter stackSize: room for the deepest JSON that is taken, also with a sanitizer's large frames. Only what is used of it
    ///   takes memory.
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

    /// Waits until it has ended.
    func join() { pthread_join(self.handle, nil) }

    /// Its memory goes when it ends.
    func detach() { pthread_detach(self.handle) }

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
