import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// A port that passes all bytes on to another one, and counts connections.
package final class TestRelay: Sendable {
    /// Observes what passes through a relay.
    ///
    /// - Parameters:
    ///   - connection: The number of the connection, counted from 1.
    ///   - isRequest: Whether the client sent the bytes.
    ///   - bytes: The bytes, which are valid during the call.
    package typealias Observer = @Sendable (_ connection: Int, _ isRequest: Bool, _ bytes: UnsafeRawBufferPointer) -> Void

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
    /// - Parameters:
    ///   - server: The port that the connections lead to.
    ///   - observe: Receives all bytes, on the thread of the relay, before they are passed on.
    package init(to server: Int, observing observe: Observer? = nil) throws {
        let loop = try EventLoop("test-relay")
        let counter = Counter()
        var options = TCPListener.Options()
        options.closed = { _ in counter.open.withLock { $0 -= 1 } }
        self.listener = try TCPListener(options, loops: [loop]) { client in
            let connection = counter.accepted.withLock { count in
                count += 1
                return count
            }
            counter.open.withLock { $0 += 1 }
            let stream = SocketStream(loop: loop, events: RelayEnd(client) { observe?(connection, false, $0) })
            stream.connect(to: "127.0.0.1", port: server)
            return RelayEnd(stream) { observe?(connection, true, $0) }
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
    private let observe: @Sendable (UnsafeRawBufferPointer) -> Void

    init(_ other: SocketStream, observing observe: @escaping @Sendable (UnsafeRawBufferPointer) -> Void) {
        (self.other, self.observe) = (other, observe)
    }

    func opened(_ stream: SocketStream) { stream.flush() }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        self.observe(bytes)
        self.other.enqueue { $0 += bytes }
        self.other.flush()
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        if error == nil { self.other.finishWriting() } else { self.other.close() }
    }
}
