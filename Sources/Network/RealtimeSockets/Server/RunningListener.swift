internal import RealtimeSystem
internal import RealtimeCore

/// A listener from its start to its stop: the port, and the connections that came over it.
final class RunningListener: Sendable {
    /// The connections that have not ended.
    private final class Connections: Sendable {
        private struct State: Sendable {
            var all: [ObjectIdentifier: HTTPServerConnection] = [:]
            var isStopping = false
            var emptied: Completion?
        }

        private let state = Lock(State())

        var all: [HTTPServerConnection] { self.state.withLock { Array($0.all.values) } }

        /// False: it comes too late.
        func add(_ connection: HTTPServerConnection) -> Bool {
            self.state.withLock { state in
                guard !state.isStopping else { return false }
                state.all[ObjectIdentifier(connection.stream)] = connection
                return true
            }
        }

        func remove(_ stream: SocketStream) {
            // The connection is let go outside the lock.
            let (gone, emptied) = self.state.withLock { state -> (HTTPServerConnection?, Completion?) in
                (state.all.removeValue(forKey: ObjectIdentifier(stream)), state.all.isEmpty ? state.emptied : nil)
            }
            gone?.forgetLimits()
            emptied?.fulfill()
        }

        func stopAdding() { self.state.withLock { $0.isStopping = true } }

        /// Fulfils it when none is left.
        func whenEmpty(_ completion: Completion) {
            let isEmpty = self.state.withLock { state -> Bool in
                state.emptied = completion
                return state.all.isEmpty
            }
            if isEmpty { completion.fulfill() }
        }
    }

    private let connections = Connections()
    private let listener: TCPListener
    private let loop: EventLoop
    private let ownLoops: [EventLoop]
    private let stopTime: Duration

    var address: SocketAddress { self.listener.address }

    init(
        _ options: TCPListener.Options, loops: [EventLoop], own: [EventLoop], _ handler: any ListenerHandler, _ limits: ListenerLimits
    ) throws(TransportError) {
        var options = options
        let connections = self.connections
        options.closed = { connections.remove($0) }
        self.listener = try TCPListener(options, loops: loops) { stream in
            let connection = HTTPServerConnection(stream, handler, limits)
            guard connections.add(connection) else { return nil }
            connection.begin()
            return connection
        }
        self.loop = loops[0]
        self.ownLoops = own
        self.stopTime = limits.stopTime
    }

    func stop() async {
        self.connections.stopAdding()
        await self.listener.stop()
        for connection in self.connections.all { connection.stream.loop.execute { connection.stop() } }
        let ended = Completion()
        self.connections.whenEmpty(ended)
        self.loop.schedule(ended, at: self.loop.now.advanced(by: self.stopTime))
        await ended.wait()
        self.loop.schedule(ended, at: nil)
        for connection in self.connections.all { connection.stream.loop.execute { connection.drop() } }
        let dropped = Completion()
        self.connections.whenEmpty(dropped)
        await dropped.wait()
        await self.shutDownLoops()
    }

    /// Joining a thread blocks, which is not for the threads of Swift's tasks.
    private func shutDownLoops() async {
        let loops = self.ownLoops
        guard !loops.isEmpty else { return }
        let done = Completion()
        let thread = PosixThread("realtime-stop") {
            for loop in loops { loop.shutdown() }
            done.fulfill()
        }
        guard let thread else {
            for loop in loops { loop.shutdown() }
            return
        }
        thread.detach()
        await done.wait()
    }
}

/// Something that happens once, and that any number of tasks wait for.
final class Completion: Sendable, TimerClient {
    private struct State: Sendable {
        var isFulfilled = false
        var waiting: [WakeUp] = []
    }

    private let state = Lock(State())

    func fulfill() {
        let waiting = self.state.withLock { state -> [WakeUp] in
            state.isFulfilled = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for wakeUp in waiting { wakeUp.resume() }
    }

    /// Its time limit has run out.
    func timerFired() { self.fulfill() }

    func wait() async {
        await withUnsafeContinuation { (wakeUp: WakeUp) in
            let isFulfilled = self.state.withLock { state -> Bool in
                if !state.isFulfilled { state.waiting.append(wakeUp) }
                return state.isFulfilled
            }
            if isFulfilled { wakeUp.resume() }
        }
    }
}
