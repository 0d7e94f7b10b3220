import Foundation
import NWWebSocket
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(Network)
import Network
#endif

/// Clients whose engine uses the transport of the library's own socket, without its delegate, and clients whose engine doesn't.
@Suite(.timeLimit(.minutes(10))) struct DirectSocketTests {
    private static let url = URL(string: "ws://host/app/key")!
    private static let established = #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.1\",\"activity_timeout\":120}"}"#

    private let transport = StubTransport()
    private let queue = DispatchQueue(label: "DirectSocketTests")
    private let delegate = RecordingDelegate()
    private let clock = ManualClock(standstillLimit: nil)

    private func client(_ socket: NWWebSocket? = nil, configure: (PusherClientOptions) -> Void = { _ in }) -> PusherConnection {
        let options = PusherClientOptions()
        options.transports = InMemoryNetwork(clock: self.clock).transports()
        options.callbackQueue = self.queue
        configure(options)
        let connection = PusherConnection(key: "key", socket: socket ?? self.socket(), url: "ws://host", options: options)
        connection.delegate = self.delegate
        connection.createGlobalChannel()
        return connection
    }

    private func socket() -> NWWebSocket { NWWebSocket(url: Self.url, transport: self.transport, connectionQueue: self.queue) }

    private func connected(_ client: PusherConnection) -> StubTransport.Connection {
        client.connect()
        let connection = self.transport.connections.last!
        connection.succeed()
        connection.receive([.text(Self.established)])
        self.queue.sync {}
        return connection
    }

    private func event(_ data: String) -> TransportMessage { .text(#"{"event":"e","channel":"a","data":"\#(data)"}"#) }

    /// A channel whose handler records the data of events.
    private func channel(_ client: PusherConnection, _ record: EventRecorder<String>) -> PusherChannel {
        let channel = client.subscribe("a", auth: nil, onMemberAdded: nil, onMemberRemoved: nil, onSubscriptionCountChanged: nil)
        channel.bind(eventName: "e") { record.record($0.data ?? "") }
        return channel
    }

    private static let subscription = #"{"event":"pusher:subscribe","data":{"channel":"a"}}"#
    private static let confirmation = #"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}"}"#

    // MARK: The ways

    @Test func `messages of the library's own socket reach the engine without a turn of the queue`() {
        let client = self.client()
        _ = self.channel(client, EventRecorder())
        self.queue.suspendBetweenBlocks()
        client.connect()
        self.transport.connections[0].succeed()
        self.transport.connections[0].receive([.text(Self.established)])
        expectEqual(self.transport.calls.all.filter { $0 != "1 flush" }, ["1 open", "1 \(Self.subscription)"])
        expectEqual(client.state.value.current?.isDirect, true)
        expect(client.connectionState == .disconnected && client.socketId == nil)
        self.queue.resume()
        self.queue.sync {}
        expect(client.connectionState == .connected && client.socketId == "1.1")
    }

    @Test func `messages of a mock wait for the queue`() {
        let socket = MockSocket()
        let client = self.client(socket)
        _ = self.channel(client, EventRecorder())
        self.queue.suspendBetweenBlocks()
        client.connect()
        expect(socket.calls.all == ["connect"] && client.state.value.current?.isDirect == false)
        self.queue.resume()
        self.queue.sync {}
        expect(socket.sent.all == [Self.subscription] && client.connectionState == .connected)
    }

    private final class Subclass: NWWebSocket, @unchecked Sendable {}

    /// Passes events on to another delegate.
    private final class Proxy: WebSocketConnectionDelegate {
        let texts = EventRecorder<String>()
        private let delegate: PusherConnection

        init(_ delegate: PusherConnection) { self.delegate = delegate }

        func webSocketDidConnect(connection: any WebSocketConnection) { self.delegate.webSocketDidConnect(connection: connection) }
        func webSocketDidDisconnect(connection: any WebSocketConnection, closeCode: NWProtocolWebSocket.CloseCode, reason: Data?) {}
        func webSocketViabilityDidChange(connection: any WebSocketConnection, isViable: Bool) {}
        func webSocketDidAttemptBetterPathMigration(result: Result<any WebSocketConnection, NWError>) {}
        func webSocketDidReceiveError(connection: any WebSocketConnection, error: NWError) {}
        func webSocketDidReceivePong(connection: any WebSocketConnection) {}
        func webSocketDidReceiveMessage(connection: any WebSocketConnection, string: String) {
            self.texts.record(string)
            self.delegate.webSocketDidReceiveMessage(connection: connection, string: string)
        }
        func webSocketDidReceiveMessage(connection: any WebSocketConnection, data: Data) {}
    }

    @Test func `a subclass of the socket is used through its methods and its delegate`() {
        let client = self.client(Subclass(url: Self.url, transport: self.transport, connectionQueue: self.queue))
        _ = self.connected(client)
        self.queue.sync {}
        expect(client.state.value.current?.isDirect == false && client.connectionState == .connected)
    }

    @Test func `another delegate of the socket receives the messages, and can pass them on`() {
        let (socket, client) = (self.socket(), self.client())
        let proxy = Proxy(client)
        socket.delegate = proxy
        client.socket = socket
        _ = self.connected(client)
        self.queue.sync {}
        expectEqual(proxy.texts.all, [Self.established])
        expect(client.state.value.current?.isDirect == false && client.connectionState == .connected)
    }

    // MARK: Events

    @Test func `the members of a usual frame become objects only for those who ask for them`() throws {
        let client = self.client()
        let events = EventRecorder<PusherEvent>()
        let connection = self.connected(client)
        _ = client.globalChannel.add { events.record($0) }
        connection.receive([
            .text(#"{"event":"e","data":"{\"a\":1}","extra":null}"#), .text(#"{"event":"e","data":{"a":1},"user_id":7}"#),
        ])
        self.queue.sync {}
        try #require(events.all.count == 2)
        let (usual, other) = (events.all[0], events.all[1])
        guard case .text = usual.frame, case .objects = other.frame else {
            Issue.record("the frames have the wrong forms")
            return
        }
        for event in [usual, other] {
            expect(event.data == #"{"a":1}"# && event.property(withKey: "event") as? String == "e")
            expect(event.property(withKey: "channel") == nil && event.property(withKey: "none") == nil)
        }
        expect(usual.property(withKey: "data") as? String == #"{"a":1}"# && usual.property(withKey: "extra") is NSNull)
        expect(other.property(withKey: "data") is [String: Any] && other.userId == "7")
    }

    @Test(arguments: [
        #"{"event":"e","channel":"a","data":"x","user_id":"u"}"#,
        #"{"event":"\u0065","channel":"a\n","data":"\"","other":[1,{"event":2}]}"#,
        #"{"event":"e"}"#, #"{"event":"e","data":null,"channel":null}"#, #"{"event":"e","data":1.5}"#, #"{"event":"e","user_id":12}"#,
        #"{"event":"e","data":["b",{"z":1,"a":"/"}]}"#, #"{"event":5}"#, #"["event"]"#, "no JSON",
        #"{"event":"e","data":"ü \ud83d\ude00"}"#,
    ])
    func `both ways to read a frame yield the same event`(text: String) {
        let slow = FoundationJSON.object(text).flatMap { PusherEvent($0) }
        guard let fast = PusherEvent(scanning: text) else { return }
        expect(fast.eventName == slow?.eventName && fast.channelName == slow?.channelName)
        expect(fast.data == slow?.data && fast.userId == slow?.userId)
        for key in ["event", "channel", "data", "user_id"] {
            expectEqual(fast.property(withKey: key) as? String, slow?.property(withKey: key) as? String)
        }
        let renamed = fast.copy(withEventName: "f")
        expect(renamed.property(withKey: "event") as? String == "f" && renamed.raw["event"] as? String == "f")
        expectEqual(renamed.raw.count, (slow?.raw.count ?? 0))
    }

    @Test func `the log has each received message once, before its effects, and all sent messages`() {
        let client = self.client()
        let connection = self.connected(client)
        let calls = EventRecorder<String>()
        let channel = self.channel(client, calls)
        connection.receive([.text(Self.confirmation), self.event("1"), TransportMessage(.pong, [])])
        self.queue.sync {}
        let logs = self.delegate.logs.all
        expectEqual(logs.count { $0.hasPrefix("[PUSHER DEBUG] websocketDidReceiveMessage") }, 3)
        expect(logs.contains(#"[PUSHER DEBUG] sendEvent {"event":"pusher:subscribe","data":{"channel":"a"}}"#))
        expect(logs.contains("[PUSHER DEBUG] Websocket received pong"))
        expect(channel.subscribed && calls.all == ["1"])
        // One that is handed to the delegate's method as well.
        _ = self.delegate.logs.take()
        self.queue.sync {
            client.webSocketDidReceiveMessage(connection: client.socket, string: #"{"event":"e","channel":"a","data":"2"}"#)
            expectEqual(calls.all, ["1", "2"])
        }
        expectEqual(self.delegate.logs.all, [#"[PUSHER DEBUG] websocketDidReceiveMessage {"event":"e","channel":"a","data":"2"}"#])
    }

    @Test func `what happened before the queue has its turn is reported in order`() {
        let client = self.client()
        let connection = self.connected(client)
        let data = EventRecorder<String>()
        let channel = self.channel(client, data)
        _ = self.delegate.calls.take()
        self.queue.suspendBetweenBlocks()
        connection.receive([.text(Self.confirmation), self.event("1")])
        connection.end(.peer(CloseCode(rawValue: 4200), "restart"))
        expect(self.delegate.calls.all.isEmpty && data.all.isEmpty)
        self.queue.resume()
        self.queue.sync {}
        self.queue.sync {}
        expect(data.all == ["1"] && !channel.subscribed)
        expectEqual(
            self.delegate.calls.all, ["subscribed a", "state connected → disconnected", "state disconnected → reconnecting"])
        expect(
            self.delegate.logs.all.contains(
                "[PUSHER DEBUG] Websocket is disconnected but no error received Close code: 4200. Reason: restart."))
    }

    @Test func `reading pauses while the queue is behind, and then resumes`() async throws {
        let client = self.client()
        let connection = self.connected(client)
        let data = EventRecorder<String>()
        _ = self.channel(client, data)
        connection.receive([.text(Self.confirmation)])
        self.queue.sync {}
        _ = self.transport.calls.take()
        self.queue.suspendBetweenBlocks()
        let text = String(repeating: "a", count: 300 << 10)
        for _ in 1...3 { connection.receive([self.event(text)]) }
        expect(self.transport.calls.all.isEmpty)
        connection.receive([self.event(text)])
        expectEqual(self.transport.calls.all, ["1 pause"])
        self.queue.resume()
        try await eventually { data.all.count == 4 }
        expectEqual(self.transport.calls.all, ["1 pause", "1 resume", "1 flush"])
    }

    // MARK: The methods of the socket

    @Test func `the methods of the socket act on the connection of the engine`() {
        let client = self.client { $0.reconnectDelay = 1000 }
        let connection = self.connected(client)
        let socket: NWWebSocket = client.socket
        _ = self.transport.calls.take()
        socket.connect()
        socket.send(string: "x")
        socket.ping()
        expectEqual(self.transport.calls.take(), ["1 x", "1 flush", "1 ping", "1 flush"])
        socket.disconnect(closeCode: .protocolCode(.goingAway))
        expectEqual(self.transport.calls.all, ["1 close 1001"])
        connection.end(.requested)
        self.queue.sync {}
        self.queue.sync {}
        expect(client.connectionState == .reconnecting && client.state.value.current == nil)
        expect(self.delegate.logs.all.contains { $0.contains("Close code: 1001") })
        // The socket is free.
        socket.connect()
        expectEqual(self.transport.connections.count, 2)
    }

    @Test func `the reason of a failure is logged, and the socket has it`() {
        let client = self.client { $0.autoReconnect = false }
        let connection = self.connected(client)
        connection.end(.transport(TransportError(.reset, "The cable was cut.")))
        self.queue.sync {}
        self.queue.sync {}
        expect(client.connectionState == .disconnected && client.socket.lastError?.code == .reset)
        expect(self.delegate.logs.all.contains("[PUSHER DEBUG] Websocket received error. Error: The cable was cut."))
    }

    @Test func `a socket with an invalid URL doesn't connect`() {
        let socket = NWWebSocket(url: URL(string: "test"), transport: self.transport, connectionQueue: self.queue)
        let client = self.client(socket) { $0.autoReconnect = false }
        client.connect()
        self.queue.sync {}
        self.queue.sync {}
        expect(client.connectionState == .disconnected && self.transport.connections.isEmpty)
        expect(self.delegate.logs.all.contains { $0.contains("Invalid URL") })
    }

    @Test func `a connection that replaces another one closes it, and the late end of that one has no effect`() throws {
        let (socket, client) = (self.socket(), self.client())
        let link = ConnectionLink()
        link.value = client
        var counter = ConnectionCounter()
        func makeConnection() throws -> SocketConnection {
            SocketConnection(link, WebSocketRequest(try Endpoint("ws://host")), counter.next(), Events())
        }
        client.socket = socket
        let (old, new) = (try makeConnection(), try makeConnection())
        old.open()
        new.open()
        expectEqual(self.transport.calls.take(), ["1 open", "1 close 1001", "2 open"])
        self.transport.connections[0].end(.requested)
        old.abandon()
        socket.send(string: "x")
        expect(self.transport.calls.all == ["2 x", "2 flush"] && client.state.value.current === new)
        new.abandon()
        socket.send(string: "lost")
        expectEqual(self.transport.calls.all.suffix(1), ["2 abandon"])
    }

    private final class Events: MessageEvents {
        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }
}
