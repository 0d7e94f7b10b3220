import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// A port that passes all bytes on to another one, and counts connections.
package final class TestRelay: Sendable {
    private let loop: EventLoop
    private let listener: TCPListener
    private let counter: Counter

    package let port: Int

    private final class Counter: Sendable {
        let accepted = Lock(0)
        let open = Lock(0)
    }

    /// Starts to accept connections.
    ///
    /// - Parameter server: The port that the connections lead to.
    package init(to server: Int) throws {
        let loop = try EventLoop("test-relay")
        let counter = Counter()
        var options = TCPListener.Options()
        options.closed = { _ in counter.open.withLock { $0 -= 1 } }
        self.listener = try TCPListener(options, loops: [loop]) { client in
            counter.accepted.withLock { $0 += 1 }
            counter.open.withLock { $0 += 1 }
            let stream = SocketStream(loop: loop, events: RelayEnd(client))
            stream.connect(to: "127.0.0.1", port: server)
            return RelayEnd(stream)
        }
        (self.loop, self.counter, self.port) = (loop, counter, self.listener.address.port)
    }

    /// The number of connections so far.
    package var connectionCount: Int { self.counter.accepted.withLock { $0 } }
    /// The number of connections that are open.
    package var openCount: Int { self.counter.open.withLock { $0 } }

    /// Closes the port and all connections.
    package func stop() async {
        await self.listener.stop()
        self.loop.shutdown()
    }
}

/// The events of one end of a connection, which are passed on to the other end.
private final class RelayEnd: StreamEvents {
    private let other: SocketStream

    init(_ other: SocketStream) {
        self.other = other
    }

    func opened(_ stream: SocketStream) { stream.flush() }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        self.other.enqueue { $0 += bytes }
        self.other.flush()
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        if error == nil { self.other.finishWriting() } else { self.other.close() }
    }
}
