import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeSystem
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// The behavior that Server-Sent Events and long polling share, in memory.
@Suite(.timeLimit(.minutes(10))) struct HTTPTransportTests {
    static let transports: [HubTransport] = [.serverSentEvents, .longPolling]

    private static func hooks() -> SignalRServerHooks {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            guard let name = request.token?.split(separator: "-").first else { return .reject(status: 401) }
            return .accept(userID: String(name), lifetime: .seconds(60))
        }
        return hooks
    }

    private static func authorization(_ token: String) -> HTTPHeaders { ["Authorization": "Bearer \(token)"] }

    // MARK: Messages

    @Test(arguments: transports)
    func `calls, streams in both directions, results of clients and broadcasts work`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        test.hub.on("Ask") { caller -> String in try await caller.clients.caller.invoke("Answer") }
        test.hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        let client = try await test.connect(transport)
        try await expectEqual(client.invoke("Add", "1,2")["result"], 3)
        let upload = client.send(
            #"{"type":1,"invocationId":"2","target":"Sum","arguments":[],"streamIds":["3"]}"#, #"{"type":2,"invocationId":"3","item":4}"#)
        let rest = client.send(#"{"type":2,"invocationId":"3","item":5}"#, #"{"type":3,"invocationId":"3"}"#)
        try await expectEqual(client.next()["result"], 9)
        try await expectEqual([upload.end(), rest.end()], [200, 200])
        let stream = client.send(#"{"type":4,"invocationId":"4","target":"Count","arguments":[2]}"#)
        for expected in [2, 2, 3] { try await expectEqual(client.next()["type"]?.int, expected) }
        let ask = client.send(#"{"type":1,"invocationId":"5","target":"Ask","arguments":[]}"#)
        let answer = client.send(#"{"type":3,"invocationId":"\#(try await client.next()["invocationId"]?.string ?? "")","result":"yes"}"#)
        try await expectEqual(client.next()["result"], "yes")
        try await expectEqual([stream.end(), ask.end(), answer.end()], [200, 200, 200])
        try await test.hub.clients.all.send("Bye")
        try await expectEqual(client.next()["target"], "Bye")
    }

    @Test(arguments: transports)
    func `the body of a request is an event with text or bytes, as the format says`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let events = test.server.events
        let client = try await test.connect(transport)
        client.send(#"{"type":6}"#)
        var received: [TransportMessage] = []
        for await case .received(_, let message) in events {
            received.append(message)
            if received.count == 2 { break }
        }
        expectEqual(received, [.text("{\"protocol\":\"json\",\"version\":1}\u{1E}"), .text("{\"type\":6}\u{1E}")])
    }

    @Test(arguments: transports)
    func `the server's message ends the connection, and its token is unknown then`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(transport)
        test.server.close(test.hub.connectionIDs[0], error: "bye", allowReconnect: true)
        try await expectEqual(client.next(), ["type": 7, "error": "bye", "allowReconnect": true])
        try await expectEqual(client.ending(), (transport == .longPolling ? 204 : 200))
        expect(client.send("").status == 404 && test.hub.connectionIDs == [])
    }

    @Test(arguments: transports)
    func `a handshake that doesn't arrive in time ends the connection`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let client = try await test.open(transport)
        test.clock.advance(by: .seconds(15))
        try await expectEqual(client.next(), ["error": "Handshake was canceled."])
        _ = try await client.ending()
        expectEqual(client.send("").status, 404)
    }

    @Test func `a client over events sends pings and receives them, and one over polls needs none`() async throws {
        let test = try await HubUnderTest()
        let (events, polls) = (try await test.connect(.serverSentEvents), try await test.connect(.longPolling))
        for _ in 0..<7 {
            test.clock.advance(by: .seconds(15))
            expect(events.take() == [["type": 6]] && polls.take() == [])
            _ = events.send(#"{"type":6}"#)
        }
        test.clock.advance(by: .seconds(30))
        expect(events.take().last?["type"] == 7 && events.endings.all == [200])
        test.clock.advance(by: .seconds(600))
        expect(polls.take() == [] && polls.endings.all == [] && test.hub.connectionIDs.count == 1)
    }

    @Test(arguments: transports)
    func `stopping the server tells clients to reconnect, and ends all connections`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(transport)
        let idle = try await test.connect(transport)
        idle.stopWaiting()
        await test.server.stop()
        expectEqual(client.take(), [["type": 7, "allowReconnect": true]])
        expectEqual(test.hub.connectionIDs, [])
        try await eventually("the handlers of the ends return") { test.server.driver.read { $0.connections.isEmpty } }
    }

    @Test(arguments: transports)
    func `releasing the server ends its connections`(transport: HubTransport) async throws {
        var test: HubUnderTest? = try await HubUnderTest()
        let client = try await test?.connect(transport)
        let clock = test?.clock
        test = nil
        _ = try await client?.ending()
        clock?.advance(by: .seconds(3_600))
        expectNil(clock?.untilNextDeadline)
    }

    @Test(arguments: transports)
    func `a trace shows the messages in both directions, with faults as well`(transport: HubTransport) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let traced = EventRecorder<String>()
        let server = SignalRServer(
            configuration: SignalRServerConfiguration(), hooks: SignalRServerHooks(), time: network.time, log: .none
        ) { _, action in
            switch action {
            case .sent(let kind, let payload): traced.record("sent \(HubMessageTrace.text(kind, payload))")
            case .received(let kind, let payload): traced.record("received \(HubMessageTrace.text(kind, payload))")
            case .opened, .sentClose, .receivedClose, .abandoned, .ended: break
            }
        }
        server.faults.dropRate = 0.0001
        let hub = server.hub("/hub")
        let address = try await server.start(on: network.listener())
        let negotiation = RawRequest(network.http, address, "POST", "/hub/negotiate?negotiateVersion=1")
        let token = try JSONValue(parsing: Array(negotiation.body.utf8))["connectionToken"]?.string ?? ""
        let client = RawHTTPHubClient(network.http, address, "/hub?id=\(token)", transport)
        client.send(#"{"protocol":"json","version":1}"#)
        client.send(#"{"type":6}"#)
        server.send("garbage", to: try #require(hub.connectionIDs.first))
        expectEqual(traced.all, [#"received {"protocol":"json","version":1}"#, "sent {}", #"received {"type":6}"#, "sent garbage"])
    }

    // MARK: Connections

    @Test(arguments: transports)
    func `an ID of another hub is unknown`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        _ = test.server.hub("/other")
        let token = try await test.negotiate()["connectionToken"]?.string ?? ""
        let other = RawHTTPHubClient(test.network.http, test.address, "/other?id=\(token)", transport)
        expect(other.endings.all == [404] && other.send("").status == 404 && other.request("DELETE").status == 404)
        let client = RawHTTPHubClient(test.network.http, test.address, "/hub?id=\(token)", transport)
        expectEqual(client.endings.all, [])
    }

    @Test(arguments: transports)
    func `connections over the limit are rejected, and their negotiations remain`(transport: HubTransport) async throws {
        let test = try await HubUnderTest { $0.connectionLimit = 1 }
        let first = try await test.connect(transport)
        let second = try await test.open(transport)
        expectEqual(second.endings.all, [503])
        test.server.close(test.hub.connectionIDs[0])
        _ = try await first.ending()
        try await eventually("the handler of the end returns") { test.server.driver.read { $0.connections.isEmpty } }
        second.wait()
        second.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(second.next(), [:])
    }

    @Test(arguments: transports)
    func `messages before the opening request are limited`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let token = try await test.negotiate()["connectionToken"]?.string ?? ""
        func post(_ body: String) -> Int? {
            RawRequest(test.network.http, test.address, "POST", "/hub?id=\(token)", body: Array(body.utf8)).status
        }
        expectEqual(post("{\"protocol\":\"json\",\"version\":1}\u{1E}"), 200)
        expectEqual(post(String(repeating: "x", count: 5_000)), 413)
        for _ in 1..<32 { expectEqual(post("{\"type\":6}\u{1E}"), 200) }
        expectEqual(post(""), 413)
        let client = RawHTTPHubClient(test.network.http, test.address, "/hub?id=\(token)", transport)
        try await expectEqual(client.next(), [:])
    }

    @Test(arguments: transports)
    func `a request that is too large is refused and ends the connection`(transport: HubTransport) async throws {
        let test = try await HubUnderTest { $0.messageLimit = 1_000 }
        let client = try await test.connect(transport)
        let request = client.request("POST", body: [UInt8](repeating: 0x20, count: (1 << 20) + 2_001))
        expect(request.status == 413 && test.hub.connectionIDs == [])
    }

    @Test(arguments: transports)
    func `a message in a request that is too large closes the connection with the reason`(transport: HubTransport) async throws {
        let test = try await HubUnderTest { $0.messageLimit = 1_000 }
        let client = try await test.connect(transport)
        let request = client.request("POST", body: String(repeating: "x", count: 2_000))
        let close = try await client.next()
        expect(close["type"] == 7 && close["error"]?.string?.contains("1000 bytes") == true && close["allowReconnect"] == true, "\(close)")
        try await expectEqual(request.end(), 200)
        try await expectEqual(client.ending(), (transport == .longPolling ? 204 : 200))
        expectEqual(test.hub.connectionIDs, [])
    }

    @Test func `a client that doesn't read what is sent to it is disconnected`() async throws {
        let test = try await HubUnderTest { $0.backlogLimit = 10_000 }
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        for _ in 0..<100 { try await test.hub.clients.all.send("A", String(repeating: "x", count: 1_000)) }
        expectEqual(test.hub.connectionIDs, [])
        client.wait()
        expectEqual(client.endings.all, [404])
    }

    @Test(arguments: transports)
    func `a request to a hub whose method waits is answered when the server reads on`(transport: HubTransport) async throws {
        let test = try await HubUnderTest { $0.pendingInvocationLimit = 2 }
        let release = Signal()
        test.hub.on("Wait") { caller in await release.wait() }
        let client = try await test.connect(transport)
        let call = #"{"type":1,"target":"Wait","arguments":[]}"#
        let first = client.send(call, call, call, call, call)
        expectEqual(first.status, 200)
        let held = client.send(#"{"type":1,"invocationId":"9","target":"Wait","arguments":[]}"#)
        expectNil(held.status)
        release.send()
        try await expectEqual(client.next()["invocationId"], "9")
        expectEqual(held.status, 200)
    }

    @Test(arguments: transports)
    func `hundreds of calls in one request are answered in order`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        test.hub.on("Echo") { (caller, value: Int) in value }
        let client = try await test.connect(transport)
        let calls = (0..<300).map { #"{"type":1,"invocationId":"\#($0)","target":"Echo","arguments":[\#($0)]}"# + "\u{1E}" }
        let request = client.request("POST", body: calls.joined())
        for value in 0..<300 { try await expectEqual(client.next()["result"]?.int, value) }
        try await expectEqual(request.end(), 200)
    }

    // MARK: Authentication

    @Test(arguments: transports)
    func `every request is authenticated, with any token of the same user`(transport: HubTransport) async throws {
        let test = try await HubUnderTest(hooks: Self.hooks())
        let client = try await test.connect(transport, headers: Self.authorization("anna-1"))
        for method in ["GET", "POST", "DELETE"] {
            let accept: HTTPHeaders = method == "GET" && transport == .serverSentEvents ? ["Accept": "text/event-stream"] : [:]
            func status(_ token: String) async throws -> Int? {
                var headers = accept
                headers["Authorization"] = token
                return try await client.request(method, headers: headers).end()
            }
            try await expectEqual(status(""), 401)
            // Connections over events don't end with a request.
            try await expectEqual(status("Bearer bert-1"), (method == "DELETE" && transport == .serverSentEvents ? 400 : 403))
        }
        test.server.faults.expiredTokens = ["anna-1"]
        try await expectEqual(client.send("").end(), 401)
        client.headers.withLock { $0 = Self.authorization("anna-2") }
        test.hub.on("Name") { caller in caller.userID }
        try await expectEqual(client.invoke("Name")["result"], "anna")
    }

    @Test(arguments: transports)
    func `a client refreshes its authentication`(transport: HubTransport) async throws {
        let test = try await HubUnderTest(hooks: Self.hooks()) { $0.allowsAuthenticationRefresh = true }
        let client = try await test.connect(transport, headers: Self.authorization("anna-1"))
        let target = client.target.replacing("/hub?", with: "/hub/refresh?")
        for (token, status) in [("anna-2", 200), ("bert-1", 403)] {
            try await expectEqual(test.request("POST", target, headers: Self.authorization(token)).head.status, status)
        }
    }

    /// A server whose hook waits with its decision about one request that brings messages, once it is told to.
    private struct SlowHook {
        let test: HubUnderTest
        let decide = Signal()
        private let waits: EventRecorder<Void>
        private let asked: EventRecorder<Void>

        init() async throws {
            let (waits, asked, decide) = (EventRecorder<Void>(), EventRecorder<Void>(), self.decide)
            (self.waits, self.asked) = (waits, asked)
            var hooks = SignalRServerHooks()
            hooks.authenticate = { request in
                guard request.request.method == "POST", waits.all.count > asked.all.count else { return .accept(userID: nil) }
                asked.record(())
                await decide.wait()
                return .accept(userID: nil)
            }
            self.test = try await HubUnderTest(hooks: hooks)
        }

        /// Sends a message about which the hook doesn't decide yet.
        func send(_ text: String, _ client: RawHTTPHubClient) async throws -> RawRequest {
            self.waits.record(())
            let request = client.send(text)
            try await eventually("the hook is asked") { self.asked.all.count == 1 }
            return request
        }
    }

    @Test(arguments: transports)
    func `bodies keep their order while the hook decides about them`(transport: HubTransport) async throws {
        let hook = try await SlowHook()
        let calls = EventRecorder<Int>()
        hook.test.hub.on("Note") { (caller, number: Int) in calls.record(number) }
        let client = try await hook.test.connect(transport)
        let first = try await hook.send(#"{"type":1,"target":"Note","arguments":[1]}"#, client)
        let second = client.send(#"{"type":1,"invocationId":"1","target":"Note","arguments":[2]}"#)
        let third = client.send(#"{"type":1,"invocationId":"2","target":"Note","arguments":[3]}"#)
        expect(first.status == nil && second.status == nil && calls.all == [])
        hook.decide.send()
        try await expectEqual([first.end(), second.end(), third.end()], [200, 200, 200])
        for _ in 0..<2 { _ = try await client.next() }
        expectEqual(calls.all, [1, 2, 3])
    }

    @Test(arguments: transports)
    func `a request that is given up before the decision doesn't hold up later ones`(transport: HubTransport) async throws {
        let hook = try await SlowHook()
        hook.test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        let client = try await hook.test.connect(transport)
        let stuck = try await hook.send(#"{"type":1,"target":"Add","arguments":[1,1]}"#, client)
        let next = client.send(#"{"type":1,"invocationId":"1","target":"Add","arguments":[1,2]}"#)
        stuck.cancel()
        try await expectEqual(next.end(), 200)
        try await expectEqual(client.next()["result"], 3)
        hook.decide.send()
    }

    // MARK: Faults

    @Test(arguments: HubTransport.allCases)
    func `a kind of transport is refused with any status, and existing connections stay open`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let open = try await test.connect(.longPolling)
        test.server.faults.refusedTransports = HubTransportKinds(transport)
        test.server.faults.refusedTransportStatus = 502
        for other in Self.transports {
            let client = try await test.open(other)
            expectEqual(client.endings.all, (other == transport ? [502] : []))
        }
        let socket = RawHubClient(test.network, test.address, "/hub")
        if transport == .webSockets {
            guard case .transport(let error)? = try await socket.ending() else { return }
            expectEqual(error.response?.head.status, 502)
        } else {
            expectEqual(socket.endings.all, [])
        }
        try await test.hub.clients.all.send("A")
        expectEqual(open.take().map { $0["target"] }, ["A"])
        test.server.faults = SignalRServerFaults()
        try await expectEqual(test.open(.serverSentEvents).endings.all, [])
    }

    @Test(arguments: transports)
    func `the answer to a request is lost after its messages were taken`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        let client = try await test.connect(transport)
        test.server.faults.lostAnswers = 1
        let call = #"{"type":1,"invocationId":"1","target":"Add","arguments":[1,2]}"#
        let lost = client.send(call)
        expect(lost.status == nil && lost.recorded.error?.code == .reset)
        try await expectEqual(client.next()["result"], 3)
        // The thread that has sent the result answers, if it hasn't returned yet.
        let repeated = client.send(call)
        try await eventually { repeated.status == 200 }
        expectEqual(test.server.faults.lostAnswers, 0)
    }

    @Test(arguments: transports)
    func `requests are unauthorized, messages are delayed, and silence suspends the timeouts`(transport: HubTransport) async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(transport)
        test.server.faults.unauthorizedRequests = 1
        expect(client.send("").status == 401 && client.send(#"{"type":6}"#).status == 200)
        test.server.faults.delay = .seconds(1)
        try await test.hub.clients.all.send("A")
        expectEqual(client.take(), [])
        test.clock.advance(by: .seconds(1))
        expectEqual(client.take().map { $0["target"] }, ["A"])
        test.server.faults = SignalRServerFaults()
        test.server.silence(test.hub.connectionIDs[0])
        expectEqual(client.send(#"{"type":7}"#).status, 200)
        test.clock.advance(by: .seconds(80))
        expect(client.take() == [] && client.endings.all == [])
        test.server.send("garbage", to: test.hub.connectionIDs[0])
        expectEqual(client.take(), [.null])
        test.server.drop(test.hub.connectionIDs[0])
        expect(client.endings.all == [transport == .longPolling ? 404 : 200] && test.hub.connectionIDs == [])
    }
}

/// The behavior of connections over long polling.
@Suite(.timeLimit(.minutes(10))) struct LongPollingTests {
    @Test func `a poll without messages is answered after its time limit`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(.longPolling)
        let polls = client.polls.all.count
        test.clock.advance(by: .milliseconds(89_999))
        expectEqual(client.polls.all.count, polls)
        test.clock.advance(by: .milliseconds(1))
        expect(client.polls.all.count == polls + 1 && client.polls.all.last == 200 && client.endings.all == [])

        let quick = try await HubUnderTest { $0.pollTimeout = .seconds(5) }
        let poll = try await quick.connect(.longPolling).request("GET")
        quick.clock.advance(by: .seconds(5))
        expect(poll.status == 200 && poll.body.isEmpty && poll.recorded.head?.headers["Content-Type"] == "text/plain")
    }

    @Test func `a client that doesn't poll in time is disconnected`() async throws {
        let test = try await HubUnderTest()
        let errors = EventRecorder<String?>()
        test.hub.onDisconnected { _, error in errors.record(error?.message) }
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        test.clock.advance(by: .milliseconds(14_999))
        client.wait()
        test.clock.advance(by: .seconds(60))
        client.stopWaiting()
        test.clock.advance(by: .milliseconds(14_999))
        expectEqual(test.hub.connectionIDs.count, 1)
        test.clock.advance(by: .milliseconds(1))
        expectEqual(test.hub.connectionIDs, [])
        try await eventually("the handler is called") { errors.all.count == 1 }
        expectEqual(errors.all.first??.contains("15.0 seconds"), true)
        client.wait()
        expectEqual(client.endings.all, [404])
    }

    @Test func `clients that never poll again don't keep others out, and are disconnected`() async throws {
        let test = try await HubUnderTest()
        for _ in 0..<300 {
            let client = try await test.connect(.longPolling)
            client.stopWaiting()
        }
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        let client = try await test.connect(.longPolling)
        try await expectEqual(client.invoke("Add", "1,2")["result"], 3)
        expectEqual(test.hub.connectionIDs.count, 301)
        test.clock.advance(by: .seconds(15))
        expectEqual(test.hub.connectionIDs.count, 1)
        try await expectEqual(client.invoke("Add", "2,2")["result"], 4)
    }

    @Test func `of polls at the same time, the last one waits, and the others are over`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        let polls = (0..<50).map { _ in client.request("GET") }
        expect(polls.dropLast().allSatisfy { $0.status == 204 && $0.body.isEmpty } && polls.last?.status == nil)
        try await test.hub.clients.all.send("A")
        expect(polls.last?.status == 200 && polls.last?.body.contains("\"A\"") == true)
        expectEqual(test.hub.connectionIDs.count, 1)
    }

    @Test func `a client may give up its polls and send others, and gets each message once`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        for _ in 0..<300 { client.request("GET").cancel() }
        var text = ""
        for number in 0...20 {
            let poll = client.request("GET")
            text += poll.body
            poll.cancel()
            if number < 20 { try await test.hub.clients.all.send("Note", number) }
        }
        let values = try text.split(separator: "\u{1E}").map { try JSONValue(parsing: Array($0.utf8))["arguments"] }
        expectEqual(values, (0..<20).map { [.number(JSONNumber($0))] })
        expectEqual(test.hub.connectionIDs.count, 1)
    }

    @Test func `the time between two polls is a setting`() async throws {
        let test = try await HubUnderTest { $0.disconnectTimeout = .seconds(40) }
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        test.clock.advance(by: .seconds(39))
        expectEqual(test.hub.connectionIDs.count, 1)
        test.clock.advance(by: .seconds(1))
        expectEqual(test.hub.connectionIDs, [])
    }

    @Test func `DELETE ends the connection in an orderly way, and the poll that waits`() async throws {
        let test = try await HubUnderTest()
        let errors = EventRecorder<String?>()
        test.hub.onDisconnected { _, error in errors.record(error?.message) }
        let client = try await test.connect(.longPolling)
        let request = client.request("DELETE")
        expect(request.status == 202 && client.endings.all == [204] && test.hub.connectionIDs == [])
        expectEqual(client.request("DELETE").status, 404)
        try await eventually("the handler is called") { errors.all == [nil] }
    }

    @Test func `polls carry MessagePack`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        let client = try await test.open(.longPolling)
        client.stopWaiting()
        expectEqual(client.send(#"{"protocol":"messagepack","version":1}"#).status, 200)
        expectEqual(client.request("GET").body, "{}\u{1E}")
        let poll = client.request("GET")
        // A ping, and Add(1, 2) with the ID "1".
        let call: [UInt8] = [0x96, 0x01, 0x80, 0xA1, 0x31, 0xA3, 0x41, 0x64, 0x64, 0x92, 0x01, 0x02, 0x90]
        expectEqual(client.request("POST", body: [0x02, 0x91, 0x06, UInt8(call.count)] + call).status, 200)
        try await expectEqual(poll.end(), 200)
        // The recorder shows bytes as text.
        let result: [UInt8] = [0x07, 0x95, 0x03, 0x80, 0xA1, 0x31, 0x03, 0x03]
        expectEqual(poll.body, String(decoding: result, as: UTF8.self))
    }

    @Test(arguments: [200, 204, 404, 500])
    func `a poll is ended with a status, and the messages wait for the next one`(status: Int) async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(.longPolling)
        test.server.endPoll(test.hub.connectionIDs[0], status: status)
        expectEqual(client.endings.all, (status == 200 ? [] : [status]))
        try await test.hub.clients.all.send("A")
        if status != 200 { client.wait() }
        expectEqual(client.take().map { $0["target"] }, ["A"])
        // Without a poll, or over another transport, there is nothing to end.
        test.server.endPoll("unknown")
        client.stopWaiting()
        test.server.endPoll(test.hub.connectionIDs[0])
        expectEqual(test.hub.connectionIDs.count, 1)
    }

    @Test func `messages between two polls arrive with the next one, in one answer`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        for number in 1...3 { try await test.hub.clients.all.send("Note", number) }
        let poll = client.request("GET")
        expect(poll.body.split(separator: "\u{1E}").count == 3 && poll.status == 200)
    }
}

/// The behavior of connections over Server-Sent Events.
@Suite(.timeLimit(.minutes(10))) struct ServerSentEventsTests {
    @Test func `a stream begins with a comment and with header fields for intermediaries`() async throws {
        let test = try await HubUnderTest()
        let stream = try await test.open(.serverSentEvents).request("GET", headers: ["Accept": "text/event-stream"])
        expectEqual(stream.status, 409)
        let token = try await test.negotiate()["connectionToken"]?.string ?? ""
        let first = RawRequest(
            test.network.http, test.address, "GET", "/hub?id=\(token)", headers: ["Accept": "application/json, Text/Event-Stream"])
        expect(first.status == 200 && first.body == ":\r\n")
        let headers = try #require(first.recorded.head?.headers)
        expect(headers["Content-Type"] == "text/event-stream" && headers["X-Accel-Buffering"] == "no")
        expect(headers["Cache-Control"] == "no-cache,no-store" && headers["Content-Encoding"] == "identity")
    }

    @Test func `each event has the messages that are ready, and lines of text stay lines`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.open(.serverSentEvents)
        client.stopWaiting()
        let token = try await test.negotiate()["connectionToken"]?.string ?? ""
        func request(_ method: String, _ body: String = "") -> RawRequest {
            let accept: HTTPHeaders = method == "GET" ? ["Accept": "text/event-stream"] : [:]
            return RawRequest(test.network.http, test.address, method, "/hub?id=\(token)", headers: accept, body: Array(body.utf8))
        }
        let stream = request("GET")
        _ = request("POST", "{\"protocol\":\"json\",\"version\":1}\u{1E}")
        expectEqual(stream.body, ":\r\ndata: {}\u{1E}\r\n\r\n")
        let id = try #require(test.hub.connectionIDs.first)
        for text in ["a\nb\r\nc\rd", "\n", ""] { test.server.send(text, to: id) }
        expect(
            stream.body.dropFirst(":\r\ndata: {}\u{1E}\r\n\r\n".utf16.count - 3)
                .hasSuffix("data: a\r\ndata: b\r\ndata: c\r\ndata: d\r\n\r\ndata: \r\ndata: \r\n\r\ndata: \r\n\r\n"))
        let large = String(repeating: "x", count: 100_000)
        for text in [large, large + "\n" + large] { test.server.send(text, to: id) }
        expect(stream.body.hasSuffix("\r\n\r\ndata: \(large)\r\n\r\ndata: \(large)\r\ndata: \(large)\r\n\r\n"))
        stream.pauseReading()
        for number in 1...2 { try await test.hub.clients.all.send("Note", number) }
        stream.resumeReading()
        expect(stream.body.hasSuffix("\"arguments\":[2]}\u{1E}\r\n\r\n"))
    }

    @Test func `the client's end of the stream is an orderly one, and its calls continue`() async throws {
        let test = try await HubUnderTest()
        let (errors, calls) = (EventRecorder<String?>(), EventRecorder<Int>())
        let release = Signal()
        test.hub.onDisconnected { _, error in errors.record(error?.message) }
        test.hub.on("Note") { (caller, number: Int) in
            if number == 1 { await release.wait() }
            calls.record(number)
        }
        let client = try await test.connect(.serverSentEvents)
        client.send(#"{"type":1,"target":"Note","arguments":[1]}"#, #"{"type":1,"target":"Note","arguments":[2]}"#)
        client.stopWaiting()
        expect(test.hub.connectionIDs == [] && client.send("").status == 404)
        release.send()
        try await eventually("the handler is called") { errors.all == [nil] }
        expectEqual(calls.all, [1, 2])
    }

    @Test func `a client that doesn't read its stream is disconnected at the limit, and others aren't`() async throws {
        let test = try await HubUnderTest { $0.backlogLimit = 10_000 }
        let errors = EventRecorder<String?>()
        test.hub.onDisconnected { _, error in errors.record(error?.message) }
        let (slow, fast) = (try await test.connect(.serverSentEvents), try await test.connect(.serverSentEvents))
        slow.pauseReading()
        var sent = 0
        while test.hub.connectionIDs.count == 2, sent < 10_000 {
            try await test.hub.clients.all.send("Many", String(repeating: "a", count: 1_000))
            sent += 1
        }
        expect(test.hub.connectionIDs.count == 1 && fast.take().count == sent && fast.endings.all.isEmpty, "\(sent)")
        try await eventually("the handler is called") { errors.all.count == 1 }
        expect(errors.all[0] != nil)
    }

    @Test func `methods wait while a client reads slowly`() async throws {
        let test = try await HubUnderTest()
        let sent = EventRecorder<Int>()
        test.hub.on("Send") { caller in
            for number in 0..<40 {
                try await caller.clients.caller.send("Note", String(repeating: "x", count: 20_000))
                sent.record(number)
            }
        }
        let client = try await test.connect(.serverSentEvents)
        client.pauseReading()
        client.send(#"{"type":1,"invocationId":"1","target":"Send","arguments":[]}"#)
        try await eventually("the method waits") { test.server.driver.read { !$0.waiting.isEmpty } }
        expect(sent.all.count < 40)
        client.resumeReading()
        for _ in 0..<40 { try await expectEqual(client.next()["target"], "Note") }
        try await expectEqual(client.next()["type"], 3)
    }
}

/// The transports over HTTP on a port.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct HTTPTransportSocketTests {
    @Test(arguments: HTTPTransportTests.transports)
    func `a client calls methods over sockets`(transport: HubTransport) async throws {
        let (server, hub) = HubSocketTests.makeServer()
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let http = SocketHTTPTransport()
        let negotiation = RawRequest(http, address, "POST", "/hub/negotiate?negotiateVersion=1")
        try await expectEqual(negotiation.end(), 200)
        let token = try JSONValue(parsing: Array(negotiation.body.utf8))["connectionToken"]?.string ?? ""
        let client = RawHTTPHubClient(http, address, "/hub?id=\(token)", transport)
        // The request that opens the connection may arrive after this one.
        let handshake = client.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(client.next(), [:])
        try await expectEqual(handshake.end(), 200)
        for number in 1...20 { try await expectEqual(client.invoke("Add", "\(number),1")["result"]?.int, number + 1) }
        server.faults.lostAnswers = 1
        let lost = client.send(#"{"type":1,"invocationId":"1","target":"Add","arguments":[1,2]}"#)
        try await expectEqual(client.next()["result"], 3)
        try await expectNil(lost.end())
        try await hub.clients.all.send("Bye")
        try await expectEqual(client.next()["target"], "Bye")
        if transport == .longPolling {
            try await expectEqual(client.request("DELETE").end(), 202)
        } else {
            client.stopWaiting()
        }
        try await eventually("the connection ends") { hub.connectionIDs == [] }
        await server.stop()
    }
}
