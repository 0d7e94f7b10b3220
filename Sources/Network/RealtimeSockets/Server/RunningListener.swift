internal import RealtimeSystem
internal import RealtimeCore

/// A listener between its start and its stop: the port, and the connections that were accepted on it.
final class RunningListener: Sendable {
    private let connections = ServerConnections()
    private let listener: TCPListener
    private let loop: EventLoop
    private let ownLoops: [EventLoop]
    private let shutdownTimeout: Duration

    var address: SocketAddress { self.listener.address }

    /// - Parameters:
    ///   - loops: The loops of the connections. The first one also accepts them.
    ///   - own: The loops among these to shut down with the listener.
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
        self.shutdownTimeout = limits.shutdownTimeout
    }

    func stop() async {
        self.connections.stopAdding()
        await self.listener.stop()
        for connection in self.connections.all { connection.stream.loop.execute { connection.stop() } }
        await self.connections.waitUntilEmpty(timeout: self.shutdownTimeout, on: self.loop)
        for connection in self.connections.all { connection.stream.loop.execute { connection.drop() } }
        await self.connections.waitUntilEmpty()
        await self.shutDownLoops()
    }

    /// Shuts down the loops on a separate thread, because joining their threads blocks.
    private func shutDownLoops() async {
        let loops = self.ownLoops
        guard !loops.isEmpty else { return }
        let finished = Waiter<Void>()
        let thread = PosixThread("realtime-stop") {
            for loop in loops { loop.shutdown() }
            finished.fulfill(())?.resume()
        }
        guard let thread else {
            for loop in loops { loop.shutdown() }
            return
        }
        thread.detach()
        await finished.value(onCancel: {})
    }
}

/// The open connections of a listener.
private final class ServerConnections: Sendable {
    private struct State: Sendable {
        var all: [ObjectIdentifier: HTTPServerConnection] = [:]
        var isStopping = false
        var emptied: Waiter<Void>?
    }

    private let state = Lock(State())

    var all: [HTTPServerConnection] { self.state.withLock { Array($0.all.values) } }

    /// - Returns: `false` if the listener stops.
    func add(_ connection: HTTPServerConnection) -> Bool {
        self.state.withLock { state in
            guard !state.isStopping else { return false }
            state.all[ObjectIdentifier(connection.stream)] = connection
            return true
        }
    }

    /// Called on the loop of the stream, after it was closed.
    func remove(_ stream: SocketStream) {
        // The connection is released outside the lock.
        let (removed, emptied) = self.state.withLock { state -> (HTTPServerConnection?, Waiter<Void>?) in
            (state.all.removeValue(forKey: ObjectIdentifier(stream)), state.all.isEmpty ? state.emptied : nil)
        }
        removed?.cancelTimer()
        emptied?.fulfill(())?.resume()
    }

    func stopAdding() { self.state.withLock { $0.isStopping = true } }

    /// Waits until all connections are closed or the timeout elapses.
    func waitUntilEmpty(timeout: Duration, on loop: EventLoop) async {
        let emptied = Waiter<Void>()
        let timer = Timeout { emptied.fulfill(())?.resume() }
        loop.schedule(timer, at: loop.now.advanced(by: timeout))
        await self.waitUntilEmpty(emptied)
        loop.schedule(timer, at: nil)
    }

    func waitUntilEmpty(_ emptied: Waiter<Void> = Waiter()) async {
        let isEmpty = self.state.withLock { state -> Bool in
            state.emptied = emptied
            return state.all.isEmpty
        }
        if isEmpty { return }
        await emptied.value(onCancel: {})
    }
}

/// Calls a closure when its timer fires.
private final class Timeout: TimerClient {
    private let action: @Sendable () -> Void

    init(_ action: @escaping @Sendable () -> Void) {
        self.action = action
    }

    func timerFired() { self.action() }
}
