import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// The connections of clients to a server, as the clients see them, in memory.
@Suite(.timeLimit(.minutes(10))) struct HubConnectionTests {
    // MARK: The beginning and the end

    @Test(arguments: [
        (#"{"protocol":"xml","version":1}"#, "The protocol 'xml' is not supported."),
        (#"{"protocol":"json","version":3}"#, "The server does not support version 3 of the 'json' protocol."),
        ("nonsense", "An unexpected error occurred during connection handshake."),
    ])
    func `a client is told why its handshake is rejected`(handshake: String, error: String) async throws {
        let test = try await HubUnderTest()
        let client = RawHubClient(test.network, test.address, "/hub")
        client.send(handshake)
        try await expectEqual(client.next(), ["error": .string(error)])
        try await expectEqual(client.ending(), .peer(.normal, ""))
    }

    @Test func `a client without a handshake is rejected in time`() async throws {
        let test = try await HubUnderTest { $0.handshakeTimeout = .seconds(3) }
        let events = test.server.events
        let client = RawHubClient(test.network, test.address, "/hub")
        try await eventually { test.server.driver.read { !$0.connections.isEmpty } }
        test.clock.advance(by: .seconds(3))
        try await expectEqual(client.next(), ["error": "Handshake was canceled."])
        try await expectEqual(client.ending(), .peer(.normal, ""))
        let error = await events.first { if case .error = $0 { true } else { false } }
        guard case .error(_, "Handshake was canceled.") = error else { throw Unexpected(value: error) }
    }

    @Test func `after a standstill, a client has the time for its handshake, or for its connection, once more`() async throws {
        let test = try await HubUnderTest { ($0.handshakeTimeout, $0.connectTimeout) = (.seconds(3), .seconds(3)) }
        let (silent, prompt) = (RawHubClient(test.network, test.address, "/hub"), RawHubClient(test.network, test.address, "/hub"))
        try await eventually { test.server.driver.read { $0.connections.count == 2 } }
        let negotiate = Endpoint(scheme: "http", host: test.address.host, port: test.address.port, target: "/hub/negotiate")
        _ = try await test.network.http.send(HTTPRequest("POST", negotiate))
        test.clock.standStill(for: .seconds(60))
        expectEqual(test.server.driver.read { $0.negotiations.count }, 1)
        prompt.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(prompt.next(), [:])
        test.clock.advance(by: .seconds(3))
        try await expectEqual(silent.next(), ["error": "Handshake was canceled."])
        expectEqual(test.server.driver.read { $0.negotiations.count }, 0)
    }

    private struct Unexpected: Error {
        var value: SignalRServerEvent?
    }

    @Test func `an idle client is pinged and a silent one is disconnected`() async throws {
        let test = try await HubUnderTest()
        let ended = EventRecorder<String?>()
        test.hub.onDisconnected { caller, error in ended.record(error?.message) }
        let client = try await test.connect()
        test.clock.advance(by: .seconds(15))
        try await expectEqual(client.next(), ["type": 6])
        client.send(#"{"type":6}"#)
        test.clock.advance(by: .seconds(29))
        try await expectEqual(client.next(), ["type": 6])
        test.clock.advance(by: .seconds(1))
        let error = "Client hasn't sent a message/ping within the configured clientTimeout."
        try await expectEqual(client.next(), ["type": 7, "error": .string(error), "allowReconnect": true])
        try await expectEqual(client.ending(), .peer(.normal, ""))
        try await eventually { ended.all == [error] }
    }

    @Test func `a client that closes is answered and not an error`() async throws {
        let test = try await HubUnderTest()
        let ended = EventRecorder<String?>()
        test.hub.onDisconnected { caller, error in ended.record(error?.message) }
        let client = try await test.connect()
        client.send(#"{"type":7}"#)
        try await expectEqual(client.next(), ["type": 7])
        try await expectEqual(client.ending(), .peer(.normal, ""))
        try await eventually { ended.all == [nil] }
    }

    @Test func `a method closes the connection of its caller`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Leave") { caller in caller.close(error: "bye", allowReconnect: true) }
        let client = try await test.connect()
        client.send(#"{"type":1,"target":"Leave","arguments":[]}"#)
        try await expectEqual(client.next(), ["type": 7, "error": "bye", "allowReconnect": true])
        try await expectEqual(client.ending(), .peer(.normal, ""))
    }

    // MARK: Clients, groups and users

    @Test func `messages reach the clients that a method selects`() async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { .accept(userID: $0.token) }
        let test = try await HubUnderTest(hooks: hooks)
        let clients = [
            try await test.connect("/hub?access_token=anna"), try await test.connect("/hub?access_token=bert"),
            try await test.connect("/hub?access_token=anna"),
        ]
        // In the order of the connections.
        let ids = EventRecorder<String>()
        test.hub.on("Join") { caller in
            caller.groups.add(caller.connectionID, to: "g")
            ids.record(caller.connectionID)
            return caller.userID
        }
        try await expectEqual(clients[0].invoke("Join")["result"], "anna")
        try await expectEqual(clients[1].invoke("Join")["result"], "bert")
        test.hub.on("Send") { caller in
            let clients = caller.clients
            try await clients.all.send("all")
            try await clients.allExcept([ids.all[1]]).send("allExcept")
            try await clients.others.send("others")
            try await clients.caller.send("caller")
            try await clients.client(ids.all[1]).send("client")
            try await clients.client("unknown").send("unknown")
            try await clients.clients([ids.all[0], ids.all[1]]).send("clients")
            try await clients.group("g").send("group")
            try await clients.groupExcept("g", [ids.all[0]]).send("groupExcept")
            try await clients.othersInGroup("g").send("othersInGroup")
            try await clients.groups(["g", "g", "none"]).send("groups")
            try await clients.user("anna").send("user")
            try await clients.users(["anna", "bert"]).send("users")
            try await clients.all.send("end")
        }
        clients[0].send(#"{"type":1,"target":"Send","arguments":[]}"#)
        func targets(_ client: RawHubClient) async throws -> [String] {
            var targets: [String] = []
            while targets.last != "end" { targets.append(try await client.next()["target"]?.string ?? "") }
            return targets.dropLast()
        }
        try await expectEqual(targets(clients[0]), ["all", "allExcept", "caller", "clients", "group", "groups", "user", "users"])
        let bert = ["all", "others", "client", "clients", "group", "groupExcept", "othersInGroup", "groups", "users"]
        try await expectEqual(targets(clients[1]), bert)
        try await expectEqual(targets(clients[2]), ["all", "allExcept", "others", "user", "users"])
    }

    @Test func `clients of both formats call methods and receive the same messages`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Send") { (caller, text: String, bytes: [Int]) in
            try await caller.clients.all.send("Receive", text, bytes)
            return bytes.count
        }
        test.hub.stream("Echo") { (caller, items: HubStream<Int>) in items }
        let json = try await test.connect()
        let client = RawHubClient(test.network, test.address, "/hub")
        client.send(.binary(HubHandshake.request(.messagePack, version: 1)))
        var reader = MessagePackInput(client: client)
        try await reader.skipHandshake()

        let coder = HubValueCoder(.messagePack)
        client.send(.invocation(HubInvocation(id: "1", target: "send", arguments: try coder.arguments("ü", [1, 2, 300]))))
        try await expectEqual(json.next(), ["type": 1, "target": "Receive", "arguments": ["ü", [1, 2, 300]]])
        let received = HubInvocation(id: nil, target: "Receive", arguments: try coder.arguments("ü", [1, 2, 300]))
        try await expectEqual(reader.next(), .invocation(received))
        try await expectEqual(reader.next(), .completion(id: "1", .result(try coder.payload(3))))

        client.send(.streamInvocation(HubInvocation(id: "2", target: "Echo", arguments: try coder.arguments(), streamIDs: ["3"])))
        client.send(.streamItem(id: "3", try coder.payload(-7)))
        try await expectEqual(reader.next(), .streamItem(id: "2", try coder.payload(-7)))
        client.send(.completion(id: "3", .void))
        try await expectEqual(reader.next(), .completion(id: "2", .void))
        client.send(.invocation(HubInvocation(id: "4", target: "Send", arguments: try coder.arguments("a"))))
        guard case .completion("4", .error(let error)) = try await reader.next() else {
            Issue.record("the invocation should have failed")
            return
        }
        expect(error.contains("Invocation provides 1 argument(s) but target expects 2."))
    }

    // MARK: Faults

    @Test func `dropped messages don't reach a client`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect()
        test.server.faults.dropRate = 1
        try await test.hub.clients.all.send("Lost")
        test.server.faults.dropRate = 0
        try await test.hub.clients.all.send("Received")
        try await expectEqual(client.next()["target"], "Received")
    }
}

/// The messages that a client receives in MessagePack.
private struct MessagePackInput {
    let client: RawHubClient
    private var reader = HubMessageReader(.messagePack, messageLimit: 1 << 20)
    private var count = 0
    private var messages: [HubMessage] = []

    init(client: RawHubClient) {
        self.client = client
    }

    private mutating func nextBytes() async throws -> [UInt8] {
        let (client, count) = (self.client, self.count)
        try await eventually("a message arrives") { client.binaryMessages.all.count > count }
        self.count += 1
        return client.binaryMessages.all[count]
    }

    mutating func skipHandshake() async throws { try await expectEqual(self.nextBytes(), HubHandshake.response(error: nil)) }

    mutating func next() async throws -> HubMessage {
        while self.messages.isEmpty {
            var messages: [HubMessage] = []
            try await self.nextBytes().withUnsafeBytes { bytes in
                try self.reader.read(bytes) { output in
                    if case .message(let message) = output { messages.append(message) } else { Issue.record("\(output)") }
                }
            }
            self.messages = messages
        }
        return self.messages.removeFirst()
    }
}

extension RawHubClient {
    fileprivate func send(_ message: HubMessage) { self.send(HubMessageWriter.message(message, .messagePack)) }
}
