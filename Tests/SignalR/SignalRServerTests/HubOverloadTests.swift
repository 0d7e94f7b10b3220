import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRServer

extension HubMachineUnderTest {
    /// Much output waits for a client, or it has been sent.
    @discardableResult
    fileprivate mutating func setWriting(_ number: Int, paused: Bool) -> [HubCommand] {
        self.step { $0.writing(ConnectionID(rawValue: UInt64(number)), paused: paused, now: $1, &$2) }
    }

    fileprivate func isReadingPaused(_ number: Int) -> Bool? {
        self.machine.connections[ConnectionID(rawValue: UInt64(number))]?.established?.isReadingPaused
    }

    fileprivate func queuedBytes(_ number: Int) -> Int? {
        self.machine.connections[ConnectionID(rawValue: UInt64(number))]?.established?.calls.queuedBytes
    }
}

/// Clients that call methods faster than they are processed, or that don't read the results.
@Suite(.timeLimit(.minutes(10))) struct HubOverloadTests {
    private static func call(_ id: Int) -> String { #"{"type":1,"invocationId":"\#(id)","target":"M\#(id)","arguments":[]}"# }
    private static func stream(_ id: Int) -> String { #"{"type":4,"invocationId":"\#(id)","target":"M\#(id)","arguments":[]}"# }
    private static func completion(_ id: Int) -> HubCommand { .send(1, #"{"type":3,"invocationId":"\#(id)"}"#) }

    /// A call that counts as a little less than 500 bytes while it waits.
    private static func largeCall(_ id: Int) -> String {
        #"{"type":1,"invocationId":"\#(id)","target":"M\#(id)","arguments":["\#(String(repeating: "a", count: 400))"]}"#
    }

    // MARK: Clients that read slowly

    @Test func `calls wait while a client reads slowly, and then start in order`() {
        var server = HubMachineUnderTest { $0.parallelInvocations = 2 }
        server.connect(1)
        expectEqual(server.receive(1, Self.call(1)), [.start("M1")])
        expectEqual(server.setWriting(1, paused: true), [])
        // A second one could run, and a stream doesn't wait for others.
        expectEqual(server.receive(1, Self.call(2), Self.call(3), Self.stream(4)), [])
        expectEqual(server.end("M1"), [Self.completion(1)])
        expectEqual(server.setWriting(1, paused: false), [.start("M2"), .start("M3"), .start("M4")])
        expectEqual(server.end("M2"), [Self.completion(2)])
    }

    @Test func `other clients don't wait for one that reads slowly`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.connect(2)
        server.setWriting(1, paused: true)
        expectEqual(server.receive(1, Self.call(1)), [])
        expectEqual(server.receive(2, Self.call(2)), [.start("M2")])
    }

    @Test func `too many calls of a client that reads slowly pause reading until it has caught up`() {
        var server = HubMachineUnderTest {
            $0.pendingInvocationLimit = 2
            $0.parallelInvocations = 10
        }
        server.connect(1)
        server.setWriting(1, paused: true)
        expectEqual(server.receive(1, Self.call(1), Self.call(2)), [])
        expectEqual(server.receive(1, Self.call(3)), [.reading(1, paused: true)])
        expectEqual(server.isReadingPaused(1), true)
        expectEqual(server.setWriting(1, paused: false), [.start("M1"), .start("M2"), .start("M3"), .reading(1, paused: false)])
        expectEqual(server.isReadingPaused(1), false)
    }

    @Test func `what a client called before it closed the connection runs although it read slowly`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.setWriting(1, paused: true)
        expectEqual(server.receive(1, Self.call(1), Self.call(2), Self.stream(3)), [])
        // As without slow reading: cancelled, one after the other, and without streams.
        expectEqual(server.closed(1), [.start("M1"), .cancel(["M1"])])
        expectEqual(server.end("M1"), [.start("M2"), .cancel(["M2"])])
        expectEqual(server.end("M2"), [.start("disconnected")])
        server.end("disconnected")
        expect(server.machine.connections.isEmpty && server.machine.nextDeadline == nil)
    }

    @Test func `what a client called isn't run if its connection is lost while it reads slowly`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, Self.call(1))
        server.setWriting(1, paused: true)
        expectEqual(server.receive(1, Self.call(2)), [])
        expectEqual(server.closed(1, .transport(TransportError(.reset, "lost"))), [.cancel(["M1"])])
        expectEqual(server.end("M1"), [.start("disconnected: lost")])
        expect(server.machine.connections.isEmpty)
    }

    @Test func `large results of many calls wait for a client that reads slowly`() async throws {
        let test = try await HubUnderTest()
        test.network.messageBacklogBytes = 1 << 20
        let started = EventRecorder<Int>()
        test.hub.on("Large") { (caller, number: Int) in
            started.record(number)
            return String(repeating: "a", count: 64 << 10)
        }
        let client = try await test.connect()
        client.pauseReading()
        // Four times as much as may wait for the client.
        let count = 64
        for number in 0..<count { client.send(#"{"type":1,"invocationId":"\#(number)","target":"Large","arguments":[\#(number)]}"#) }
        try await eventually { started.all.count >= 4 }
        for _ in 0..<1_000 { await Task.yield() }
        try #require(started.all.count < 16 && client.endings.all.isEmpty)
        client.resumeReading()
        for number in 0..<count {
            let result = try await client.next()
            expect(result["invocationId"]?.string == "\(number)" && result["result"]?.string?.utf8.count == 64 << 10)
        }
        expect(started.all == Array(0..<count) && client.endings.all.isEmpty)
    }

    // MARK: Large invocations

    @Test func `reading pauses while the invocations that wait are too large`() {
        var server = HubMachineUnderTest { $0.invocationBufferLimit = 1_000 }
        server.connect(1)
        // The first one runs, so its arguments don't wait.
        expectEqual(server.receive(1, Self.largeCall(1), Self.largeCall(2), Self.largeCall(3)), [.start("M1")])
        expectEqual(server.receive(1, Self.largeCall(4)), [.reading(1, paused: true)])
        expectEqual(server.isReadingPaused(1), true)
        // The client isn't blamed for what isn't read.
        expect(server.advance(by: .seconds(100)).allSatisfy { $0 == .send(1, #"{"type":6}"#) })
        // Two that wait are within the limit, and more than half of it.
        expectEqual(server.end("M1"), [Self.completion(1), .start("M2")])
        expectEqual(server.end("M2"), [Self.completion(2), .start("M3"), .reading(1, paused: false)])
        expectEqual(server.isReadingPaused(1), false)
        server.end("M3")
        expectEqual(server.end("M4"), [Self.completion(4)])
        expectEqual(server.queuedBytes(1), 0)
    }

    @Test func `an invocation that is cancelled doesn't count any more`() {
        var server = HubMachineUnderTest { $0.invocationBufferLimit = 1_000 }
        server.connect(1)
        server.receive(1, Self.largeCall(1), Self.largeCall(2), Self.largeCall(3), Self.largeCall(4))
        expectEqual(server.isReadingPaused(1), true)
        func cancelled(_ id: Int) -> HubCommand {
            .send(1, #"{"type":3,"invocationId":"\#(id)","error":"The invocation was canceled by the client."}"#)
        }
        expectEqual(server.receive(1, #"{"type":5,"invocationId":"3"}"#), [cancelled(3)])
        expectEqual(server.receive(1, #"{"type":5,"invocationId":"4"}"#), [cancelled(4), .reading(1, paused: false)])
        expectEqual(server.end("M1"), [Self.completion(1), .start("M2")])
        expectEqual(server.queuedBytes(1), 0)
    }

    @Test func `large invocations are rejected while a method waits for a result of the client`() {
        var server = HubMachineUnderTest { $0.invocationBufferLimit = 1_000 }
        server.connect(1)
        server.invoke("Ask", on: 1, waiter: 1)
        let messages = (0..<20).map { Self.largeCall($0) + "\u{1E}" }
        // One runs, and nine wait: the last one of them exceeds four times the limit.
        let text = "The invocations of the connection that wait for earlier ones are too large."
        let rejections = (10..<20).map { HubCommand.send(1, #"{"type":3,"invocationId":"\#($0)","error":"\#(text)"}"#) }
        // Reading continues for the result.
        let commands = server.receiveRaw(1, messages)
        expect(commands.first == .start("M0") && Array(commands.dropFirst()) == rejections)
        expectEqual(server.isReadingPaused(1), false)
        expect(server.logged.contains { $0.hasSuffix("exceeded the limit of 1000 bytes in pending invocations.") })
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s1","result":1}"#), [.resume(1, "1"), .reading(1, paused: true)])
        expectEqual(server.isReadingPaused(1), true)
        // What was accepted is processed.
        for id in 0..<9 { expectEqual(server.end("M\(id)").prefix(2), [Self.completion(id), .start("M\(id + 1)")]) }
        expectEqual(server.end("M9"), [Self.completion(9)])
    }

    @Test func `large invocations that were read before reading paused aren't rejected`() {
        var server = HubMachineUnderTest { $0.invocationBufferLimit = 1_000 }
        server.connect(1)
        let messages = (0..<20).map { Self.largeCall($0) + "\u{1E}" }
        expectEqual(server.receiveRaw(1, messages), [.start("M0"), .reading(1, paused: true)])
        for id in 0..<19 { expectEqual(server.end("M\(id)").prefix(2), [Self.completion(id), .start("M\(id + 1)")]) }
    }

    // MARK: The end

    @Test func `a close leaves reading unpaused, so that the client's close frame is read`() {
        let id = ConnectionID(rawValue: 1)
        let closes: [(inout SignalRServerMachine, Instant, inout Effects<SignalRServerMachine>) -> Void] = [
            { $0.close(id, error: nil, allowReconnect: false, now: $1, &$2) },
            { $0.close(id, error: "bye", allowReconnect: true, now: $1, &$2) },
            { $0.stop(now: $1, &$2) },
            { $0.received(id, MessageBatch([TransportMessage.text("{\"type\":7}\u{1E}")]), now: $1, &$2) },
        ]
        for close in closes {
            var server = HubMachineUnderTest { $0.invocationBufferLimit = 1_000 }
            server.connect(1)
            server.receive(1, Self.largeCall(1), Self.largeCall(2), Self.largeCall(3), Self.largeCall(4))
            expectEqual(server.isReadingPaused(1), true)
            let commands = server.step(close)
            expect(commands.contains { if case .close(1, _) = $0 { true } else { false } })
            expectEqual(server.isReadingPaused(1), false)
            // Not paused again by what still waits.
            server.end("M1")
            expectEqual(server.isReadingPaused(1), false)
        }
    }
}

/// The paths of hubs.
@Suite(.timeLimit(.minutes(10))) struct HubPathTests {
    @Test func `a slash at the end of the path of a hub is ignored`() async throws {
        let test = try await HubUnderTest()
        let chat = test.server.hub("/chat/")
        expect(test.server.hub("/Chat") === chat && test.server.hub("/chat/") === chat && test.hub !== chat)
        for path in ["/chat/negotiate", "/chat/negotiate/", "/Chat/Negotiate"] {
            let response = try await test.request("POST", path + "?negotiateVersion=1")
            try #require(response.head.status == 200, "\(path)")
            let token = try #require(try JSONValue(parsing: response.body)["connectionToken"]?.string)
            let client = try await test.connect("/chat?id=\(token)")
            expectEqual(chat.connectionIDs.count, 1)
            client.close()
            try await eventually { chat.connectionIDs.isEmpty }
        }
        for path in ["/chat", "/chat/", "/CHAT/"] {
            let client = try await test.connect(path)
            expect(chat.connectionIDs.count == 1 && test.hub.connectionIDs.isEmpty, "\(path)")
            client.close()
            try await eventually { chat.connectionIDs.isEmpty }
        }
    }

    @Test func `a hub can have the root as its path`() async throws {
        let test = try await HubUnderTest()
        let root = test.server.hub("/")
        try await expectEqual(test.request("POST", "/negotiate").head.status, 200)
        let client = try await test.connect("/")
        expectEqual(root.connectionIDs.count, 1)
        client.close()
    }
}

/// A server that is released while a client connects.
@Suite(.timeLimit(.minutes(10))) struct HubReleaseTests {
    /// A server on a listener that its release doesn't stop. Its hook accepts a client when the test says so.
    private final class SharingServer: Sendable {
        let network: InMemoryNetwork
        let address: ListenerAddress
        let asked = Signal()
        let mayDecide = Signal()
        private let server: Lock<SignalRServer?>

        init() async throws {
            let network = InMemoryNetwork(clock: ManualClock())
            let (asked, mayDecide) = (self.asked, self.mayDecide)
            var hooks = SignalRServerHooks()
            hooks.authenticate = { _ in
                asked.send()
                await mayDecide.wait()
                return .accept(userID: nil)
            }
            let server = SignalRServer(network: network, hooks: hooks, log: .none)
            _ = server.hub("/hub")
            let address = try await network.listener().start(ListenerRouter([.path("/hub", server.listenerHandler)]))
            (self.network, self.address) = (network, address)
            self.server = Lock<SignalRServer?>(server)
        }

        /// Releases the server after it has called the hook, which accepts the client then.
        func releaseWhileDeciding() async {
            await self.asked.wait()
            _ = self.server.withLock { $0.take() }
            self.mayDecide.send()
        }
    }

    @Test func `a negotiation is rejected if the server is released while the hook decides`() async throws {
        let test = try await SharingServer()
        let endpoint = Endpoint(scheme: "http", host: test.address.host, port: test.address.port, target: "/hub/negotiate")
        let request = HTTPRequest("POST", endpoint)
        async let response = test.network.http.send(request)
        await test.releaseWhileDeciding()
        let rejection = try await response
        expectEqual(rejection.head.status, 503)
        expectEqual(String(decoding: rejection.body, as: UTF8.self), "The server has stopped.")
    }

    @Test func `a WebSocket is rejected if the server is released while the hook decides`() async throws {
        let test = try await SharingServer()
        let client = RawHubClient(test.network, test.address, "/hub")
        await test.releaseWhileDeciding()
        guard case .transport(let error)? = try await client.ending() else {
            Issue.record("the WebSocket should have been rejected")
            return
        }
        let rejection = try #require(error.response)
        expect(error.code == .upgradeRejected && rejection.head.status == 503)
        expectEqual(String(decoding: rejection.body, as: UTF8.self), "The server has stopped.")
    }

    /// The handler of a server that is released after it has decided to accept a WebSocket, and before it receives the connection.
    private final class ReleasingHandler: ListenerHandler {
        private let handler: any ListenerHandler
        private let server: Lock<SignalRServer?>

        init(_ network: InMemoryNetwork) {
            let server = SignalRServer(network: network, log: .none)
            _ = server.hub("/hub")
            self.handler = server.listenerHandler
            self.server = Lock<SignalRServer?>(server)
        }

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            self.handler.received(request, body: body, responder: responder)
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
            let decision = self.handler.upgrade(request)
            return decision.replacingAcceptor { acceptor in
                _ = self.server.withLock { $0.take() }
                return acceptor
            }
        }
    }

    @Test func `a connection is closed if the server is released just before it receives it`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let address = try await network.listener().start(ReleasingHandler(network))
        let client = RawHubClient(network, address, "/hub")
        // Without a hook, everything happens on this thread.
        expectEqual(client.endings.all, [.peer(.goingAway, "")])
    }
}
