import RealtimeSystem
import TestSupport
import RealtimeCore
import Testing

@testable import RealtimeSockets

/// A client that sends the same frames or requests as fast as the server takes them, and reads everything.
final class Flooder: StreamEvents {
    private let greeting: String
    private let block: [UInt8]
    private let remaining: Lock<Int>
    let stream: SocketStream

    /// - Parameters:
    ///   - upgrades: Whether to send frames on a WebSocket.
    ///   - frame: A masked frame, or a request.
    ///   - frames: The number of them after which the flood ends.
    init(_ address: ListenerAddress, tls: Bool, upgrades: Bool, loop: EventLoop, frame: [UInt8], frames: Int) throws {
        self.greeting = upgrades ? "\(ListenerWebSocketTests.upgrade)\r\n" : ""
        let perBlock = max(1, (64 << 10) / frame.count)
        self.block = Array((0..<perBlock).map { _ in frame }.joined())
        self.remaining = Lock(frames / perBlock)
        self.stream = SocketStream(loop: loop)
        var options = ConnectOptions(timeout: .seconds(600))
        if tls {
            let context = try TLSContext.client(.trustingTestRoot)
            options.security = { (descriptor) throws(TransportError) in
                try TLSSession(client: context, descriptor: descriptor, host: "localhost")
            }
        }
        self.stream.connect(to: address.host, port: address.port, options, events: self)
    }

    func stop() {
        self.remaining.withLock { $0 = 0 }
        self.stream.close()
    }

    func opened(_ stream: SocketStream) {
        stream.send(Array(self.greeting.utf8))
        self.fill()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {}
    func drained(_ stream: SocketStream) { self.fill() }
    func ended(_ stream: SocketStream, _ error: TransportError?) { stream.close() }

    private func fill() {
        while self.stream.bufferedBytes <= 2 * SocketStream.highWater {
            let continues = self.remaining.withLock { remaining in
                remaining -= 1
                return remaining >= 0
            }
            guard continues else { break }
            self.stream.enqueue { $0 += self.block }
        }
        self.stream.flush()
    }
}

/// A server that counts the messages of floods, and answers the messages of one neighbor.
final class FloodedServer: AcceptingHandler {
    struct Counts: Sendable {
        var messages = 0
        var bytes = 0
        /// The number of messages received from the neighbor.
        var arrived = 0
        /// The counts of what was received from floods when the neighbor had sent a message that has not arrived yet.
        var sent: (messages: Int, bytes: Int)?
        /// The number of messages of the neighbor for which that is known.
        var measurements = 0
        /// The most that was received from floods before a message of the neighbor.
        var worst = (messages: 0, bytes: 0)
    }

    private let counts = Lock(Counts())
    private let recorder = Log<Void>()

    var seen: Counts { self.counts.withLock { $0 } }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.count(messages: 1, bytes: request.target.utf8.count)
        responder.respond(HTTPResponse(status: 404))
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

    private func count(messages: Int, bytes: Int) {
        let isFirst = self.counts.withLock { counts in
            defer { (counts.messages, counts.bytes) = (counts.messages + messages, counts.bytes + bytes) }
            return counts.messages == 0
        }
        if isFirst { self.recorder.add(()) }
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        request.target == "/neighbor" ? Neighbor(self, connection) : Flood(self)
    }

    /// The neighbor has sent a message. Has no effect if the message has arrived already: the flood that follows didn't delay it.
    ///
    /// - Parameter number: The number of messages that the neighbor has sent.
    func noteSent(_ number: Int) {
        self.counts.withLock { counts in
            guard counts.arrived < number else { return }
            counts.sent = (counts.messages, counts.bytes)
        }
    }

    /// Waits until floods have sent something.
    func flooded() async { await self.recorder.wait(1) }

    private final class Flood: MessageEvents {
        let server: FloodedServer

        init(_ server: FloodedServer) {
            self.server = server
        }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            self.server.count(messages: batch.entries.count, bytes: batch.bytes.count)
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }

    private final class Neighbor: MessageEvents {
        let server: FloodedServer
        let connection: any MessageConnection

        init(_ server: FloodedServer, _ connection: any MessageConnection) {
            (self.server, self.connection) = (server, connection)
        }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            let count = batch.entries.count
            self.server.counts.withLock { counts in
                counts.arrived += count
                guard let sent = counts.sent.take() else { return }
                counts.measurements += 1
                counts.worst.messages = max(counts.worst.messages, counts.messages - sent.messages)
                counts.worst.bytes = max(counts.worst.bytes, counts.bytes - sent.bytes)
            }
            self.connection.enqueue(.text("pong"))
            self.connection.flush()
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }
}
