import Foundation
import NWWebSocket
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(Network)
import Network
#endif

/// Sockets and the connections of the engine that use them, without a network.
@Suite(.timeLimit(.minutes(10))) struct SocketUseTests {
    private final class SocketDelegate: WebSocketConnectionDelegate {
        let calls = EventRecorder<String>()
        private let onText: @Sendable (String) -> Void

        init(onText: @escaping @Sendable (String) -> Void = { _ in }) { self.onText = onText }

        func webSocketDidConnect(connection: any WebSocketConnection) { self.calls.record("connected") }
        func webSocketDidDisconnect(connection: any WebSocketConnection, closeCode: NWProtocolWebSocket.CloseCode, reason: Data?) {
            self.calls.record("disconnected \(closeCode.number.rawValue)")
        }
        func webSocketViabilityDidChange(connection: any WebSocketConnection, isViable: Bool) {}
        func webSocketDidAttemptBetterPathMigration(result: Result<any WebSocketConnection, NWError>) {}
        func webSocketDidReceiveError(connection: any WebSocketConnection, error: NWError) { self.calls.record("error") }
        func webSocketDidReceivePong(connection: any WebSocketConnection) { self.calls.record("pong") }
        func webSocketDidReceiveMessage(connection: any WebSocketConnection, string: String) { self.onText(string) }
        func webSocketDidReceiveMessage(connection: any WebSocketConnection, data: Data) {}
    }

    private static let url = URL(string: "ws://host/app/key")!

    private let transport = StubTransport()
    private let queue = DispatchQueue(label: "SocketUseTests")

    private func socket() -> NWWebSocket {
        NWWebSocket(url: Self.url, transport: self.transport, connectionQueue: self.queue)
    }

    // MARK: Uses

    @Test func `a use has no effect after another one has begun`() throws {
        let (socket, delegate) = (self.socket(), SocketDelegate())
        socket.delegate = delegate
        let old = SocketUse(socket)
        old.connect()
        old.send(.text("a"))
        let new = SocketUse(socket)
        old.send(.text("lost"))
        expect(!old.disconnect(with: .normal))
        old.abandon()
        old.connect()
        expectEqual(self.transport.calls.take(), ["1 open", "1 a", "1 flush"])
        // Nothing else closes the old connection.
        new.connect()
        new.send(.text("b"))
        expectEqual(self.transport.calls.take(), ["1 close 1001", "2 open", "2 b", "2 flush"])
        expect(new.disconnect(with: .normal))
        expectEqual(self.transport.calls.take(), ["2 close 1000"])
        self.queue.sync {}
        expectEqual(delegate.calls.all, ["disconnected 1000"])
    }

    @Test func `a use that has ended can't connect`() throws {
        let socket = self.socket()
        let (abandoned, closed) = (SocketUse(socket), SocketUse(socket))
        abandoned.abandon()
        expect(!closed.disconnect(with: .normal))
        abandoned.connect()
        closed.connect()
        closed.send(.text("lost"))
        expect(self.transport.connections.isEmpty)
        let last = SocketUse(socket)
        last.connect()
        last.abandon()
        last.connect()
        expectEqual(self.transport.calls.all, ["1 open", "1 abandon"])
    }

    @Test func `the end of an earlier use isn't reported to the next one`() throws {
        let (socket, delegate) = (self.socket(), SocketDelegate())
        socket.delegate = delegate
        let old = SocketUse(socket)
        old.connect()
        self.queue.suspendBetweenBlocks()
        expect(old.disconnect(with: .normal))
        let new = SocketUse(socket)
        self.queue.resume()
        self.queue.sync {}
        expect(delegate.calls.all.isEmpty)
        new.connect()
        expectEqual(self.transport.connections.count, 2)
    }

    @Test func `a socket with methods of its own is disconnected when it is abandoned`() {
        let socket = MockSocket()
        let use = SocketUse(socket)
        // Another thread abandons the connection before the mock begins to connect.
        socket.onCall = { call in if call == "connect" { use.abandon() } }
        use.connect()
        expectEqual(socket.calls.all, ["connect", "disconnect", "disconnect"])
        expectEqual(socket.disconnects.all, [.protocolCode(.goingAway), .protocolCode(.goingAway)])
        use.abandon()
        use.send(.text("lost"))
        expect(!use.disconnect(with: .normal) && socket.calls.all.count == 3)
    }

    @Test func `a socket that another use has taken over isn't disconnected after it connects`() {
        let socket = MockSocket()
        let use = SocketUse(socket)
        socket.onCall = { call in
            guard call == "connect" else { return }
            use.abandon()
            socket.onCall = nil
            SocketUse(socket).connect()
        }
        use.connect()
        expectEqual(socket.calls.all, ["connect", "disconnect", "connect"])
    }

    private final class ForwardingSocket: NWWebSocket, @unchecked Sendable {
        let calls = EventRecorder<String>()

        override func connect() {
            self.calls.record("connect")
            super.connect()
        }

        override func send(string: String) {
            self.calls.record("send \(string)")
            super.send(string: string)
        }

        override func disconnect(closeCode: NWProtocolWebSocket.CloseCode = .protocolCode(.normalClosure)) {
            self.calls.record("disconnect")
            super.disconnect(closeCode: closeCode)
        }
    }

    @Test func `a subclass receives the calls, and can pass them on`() {
        let socket = ForwardingSocket(url: Self.url, transport: self.transport, connectionQueue: self.queue)
        let first = SocketUse(socket)
        first.connect()
        first.send(.text("a"))
        first.abandon()
        expectEqual(socket.calls.take(), ["connect", "send a", "disconnect"])
        expectEqual(self.transport.calls.take(), ["1 open", "1 a", "1 flush", "1 close 1001"])
        let second = SocketUse(socket)
        second.connect()
        SocketUse(socket).connect()
        expectEqual(self.transport.calls.take(), ["2 open", "2 close 1001", "3 open"])
        expect(!second.disconnect(with: .normal) && self.transport.calls.all.isEmpty)
    }

    // MARK: Connections of the engine

    private final class Events: MessageEvents {
        let calls = EventRecorder<String>()

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.calls.record("opened") }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.calls.record("received") }
        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.calls.record("closed \(reason)") }
    }

    /// A client that is never connected, and connections over its socket.
    private struct Client {
        let socket = MockSocket()
        let connection: PusherConnection
        let link = ConnectionLink()

        init() {
            self.socket.answersConnect = false
            self.connection = PusherConnection(key: "key", socket: self.socket, url: "ws://host", options: PusherClientOptions())
            self.link.value = self.connection
        }
    }

    private func makeConnection(_ client: Client, _ events: Events = Events()) throws -> SocketConnection {
        var counter = ConnectionCounter()
        return SocketConnection(client.link, WebSocketRequest(try Endpoint("ws://host")), counter.next(), events)
    }

    private func openConnection(_ client: Client, _ events: Events = Events()) throws -> SocketConnection {
        let connection = try self.makeConnection(client, events)
        connection.open()
        connection.opened()
        _ = client.socket.calls.take()
        return connection
    }

    @Test func `a connection that is abandoned before it opens leaves the socket to its successor`() throws {
        let client = Client()
        let (old, new) = (try self.makeConnection(client), try self.makeConnection(client))
        old.abandon()
        old.open()
        expect(client.socket.calls.all.isEmpty && client.connection.state.value.current == nil)
        new.open()
        old.open()
        expect(client.socket.calls.all == ["connect"] && client.connection.state.value.current === new)
    }

    @Test func `a connection that is closed before it opens ends, and leaves the socket alone`() throws {
        let (client, events) = (Client(), Events())
        let connection = try self.makeConnection(client, events)
        connection.close(.normal, reason: "")
        connection.open()
        expect(client.socket.calls.all.isEmpty && events.calls.all == ["closed \(CloseReason.requested)"])
    }

    @Test func `no text is sent after the connection was abandoned`() throws {
        let client = Client()
        let connection = try self.openConnection(client)
        for text in ["1", "2", "3"] { connection.enqueue(.text(text)) }
        client.socket.onCall = { call in if call == "send 1" { connection.abandon() } }
        connection.flush()
        expectEqual(client.socket.calls.all, ["send 1", "disconnect"])
        connection.enqueue(.text("4"))
        connection.flush()
        expect(!connection.send("5") && client.socket.calls.all.count == 2)
    }

    @Test func `the socket is disconnected after the texts before, also if they are being sent`() throws {
        let client = Client()
        let connection = try self.openConnection(client)
        for text in ["1", "2"] { connection.enqueue(.text(text)) }
        client.socket.onCall = { call in if call == "send 1" { connection.close(.normal, reason: "") } }
        connection.flush()
        expectEqual(client.socket.calls.all, ["send 1", "send 2", "disconnect"])
        expectEqual(client.socket.disconnects.all, [.protocolCode(.normalClosure)])
    }

    @Test func `a connection whose socket is used by another one ends when it is closed`() throws {
        let (client, events) = (Client(), Events())
        let connection = try self.openConnection(client, events)
        let other = SocketUse(client.socket)
        connection.enqueue(.text("lost"))
        connection.close(.normal, reason: "")
        expect(client.socket.calls.all.isEmpty && events.calls.all == ["opened", "closed \(CloseReason.requested)"])
        other.send(.text("a"))
        expectEqual(client.socket.calls.all, ["send a"])
    }

    // MARK: Reading

    @Test func `reading pauses while the queue is behind, and then resumes`() async throws {
        let (socket, texts) = (self.socket(), EventRecorder<Void>())
        let delegate = SocketDelegate { _ in texts.record(()) }
        socket.delegate = delegate
        socket.connect()
        let connection = self.transport.connections[0]
        connection.succeed()
        self.queue.suspendBetweenBlocks()
        // Their payloads don't wait for the queue.
        let controls = [TransportMessage(.ping, Array(repeating: 0, count: 125)), TransportMessage(.pong, Array(repeating: 0, count: 125))]
        for _ in 1...10_000 { connection.receive(controls) }
        expectEqual(self.transport.calls.take(), ["1 open"])
        let text = TransportMessage.text(String(repeating: "a", count: 200 << 10))
        for _ in 1...3 { connection.receive([text, text]) }
        expectEqual(self.transport.calls.take(), ["1 pause"])
        connection.receive([text])
        expect(self.transport.calls.take().isEmpty)
        self.queue.resume()
        try await eventually { texts.all.count == 7 }
        expectEqual(self.transport.calls.all, ["1 resume", "1 flush"])
        // Once more, so that nothing of the first time is left.
        self.queue.suspendBetweenBlocks()
        for _ in 1...5 { connection.receive([text]) }
        expectEqual(self.transport.calls.all.count, 2)
        connection.receive([text])
        expectEqual(self.transport.calls.all.last, "1 pause")
        self.queue.resume()
        try await eventually { texts.all.count == 13 }
        expectEqual(self.transport.calls.all.suffix(2), ["1 resume", "1 flush"])
        withExtendedLifetime(delegate) {}
    }

    @Test func `pausing and resuming alternate on two threads`() async throws {
        let (socket, count) = (self.socket(), scaled(3000))
        let received = EventRecorder<Void>()
        let delegate = SocketDelegate { _ in received.record(()) }
        socket.delegate = delegate
        socket.connect()
        let connection = self.transport.connections[0]
        connection.succeed()
        let text = TransportMessage.text(String(repeating: "a", count: 300 << 10))
        try await onOwnThread { for _ in 0..<count { connection.receive([text]) } }
        try await eventually { received.all.count == count }
        let calls = self.transport.calls.all.filter { $0 == "1 pause" || $0 == "1 resume" }
        expect(calls.count.isMultiple(of: 2))
        expect(calls.enumerated().allSatisfy { $0.element == ($0.offset.isMultiple(of: 2) ? "1 pause" : "1 resume") })
        withExtendedLifetime((socket, delegate)) {}
    }

    // MARK: Pings

    private final class PingingSocket: NWWebSocket, @unchecked Sendable {
        let pings = EventRecorder<Void>()

        override func ping() { self.pings.record(()) }
    }

    @Test func `pings end when the server closes the connection`() async throws {
        let socket = PingingSocket(url: Self.url, transport: self.transport, connectionQueue: self.queue)
        socket.connect()
        socket.ping(interval: 0.001)
        try await eventually { !socket.pings.all.isEmpty }
        self.transport.connections[0].end(.peer(.goingAway, ""))
        self.queue.sync {}
        _ = socket.pings.take()
        let other = PingingSocket(url: Self.url, transport: self.transport, connectionQueue: self.queue)
        other.ping(interval: 0.01)
        try await eventually { other.pings.all.count >= 5 }
        expect(socket.pings.all.isEmpty)
    }
}
