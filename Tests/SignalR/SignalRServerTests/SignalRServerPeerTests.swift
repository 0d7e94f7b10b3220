import PeerSupport
import RealtimeCoding
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRServer

/// The methods that the clients call.
private enum PeerHub {
    private struct Person: Codable, Sendable {
        var name: String
        var age: Int
    }

    static func makeServer(_ disconnected: EventRecorder<String>, allowing origins: Set<String> = []) -> SignalRServer {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            request.token == "secret" ? .accept(userID: "anna") : request.token == nil ? .accept(userID: nil) : .reject(status: 401)
        }
        // Other tests use the processor.
        var configuration = SignalRServerConfiguration()
        configuration.authenticationTimeout = .seconds(600)
        configuration.connectTimeout = .seconds(600)
        configuration.handshakeTimeout = .seconds(600)
        configuration.clientTimeout = .seconds(600)
        configuration.clientResultTimeout = .seconds(600)
        configuration.disconnectTimeout = .seconds(600)
        configuration.allowsStatefulReconnects = true
        configuration.allowedOrigins = origins
        let server = SignalRServer(configuration: configuration, hooks: hooks, log: .none)
        let hub = server.hub("/test")
        hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        hub.on("Grow") { (caller, person: Person) in Person(name: person.name, age: person.age + 1) }
        hub.on("Who") { caller in caller.userID ?? "a guest" }
        hub.on("Broadcast") { (caller, text: String, number: Double) in
            try await caller.clients.all.send("Receive", text, number)
        }
        hub.on("Fail") { caller in throw HubException("on purpose") }
        hub.on("Ask") { (caller, question: String) in
            let answer: String = try await caller.clients.caller.invoke("Answer", question)
            return "\(question) \(answer)"
        }
        hub.on("Sum") { (caller, start: Int, items: HubStream<Int>) in try await items.reduce(start, +) }
        hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        hub.stream("Forever") { caller in
            let produced = EventRecorder<Void>()
            return AsyncStream<Int> {
                produced.record(())
                return produced.all.count
            }
        }
        hub.stream("Double") { (caller, items: HubStream<Int>) in items.map { 2 * $0 } }
        hub.on("Collect") { (caller, items: HubStream<Int>) in
            let sum = try await items.reduce(0, +)
            try await caller.clients.caller.send("Receive", "sum", Double(sum))
        }
        hub.stream("FailAfter") { (caller, count: Int) in
            AsyncThrowingStream<Int, any Error> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish(throwing: HubException("on purpose"))
            }
        }
        hub.on("Join") { (caller, group: String) in caller.groups.add(caller.connectionID, to: group) }
        hub.on("Leave") { (caller, group: String) in caller.groups.remove(caller.connectionID, from: group) }
        hub.on("ToGroup") { (caller, group: String, text: String) in
            try await caller.clients.group(group).send("Receive", text, 1.5)
        }
        hub.onDisconnected { caller, error in disconnected.record(error?.message ?? "left") }
        return server
    }
}

extension PeerHub {
    /// The transports of Microsoft's client for TypeScript, with the formats that they carry.
    static let pairs = [("ws", "json"), ("ws", "msgpack"), ("sse", "json"), ("lp", "json"), ("lp", "msgpack")]

    /// Connects one of Microsoft's clients to a server, calls every kind of method, and stops it.
    static func callEveryMethod(
        _ server: SignalRServer, _ port: Int, _ disconnected: EventRecorder<String>, with peer: Peer, _ transport: String, _ format: String,
        isTypeScript: Bool
    ) async throws {
        let url = JSONValue.string("http://127.0.0.1:\(port)/test")
        try await peer.perform([
            "do": "connect", "url": url, "transport": .string(transport), "protocol": .string(format), "token": "secret",
        ])
        @discardableResult
        func invoke(_ method: String, _ arguments: JSONValue = []) async throws -> JSONValue {
            try await peer.perform(["do": "invoke", "method": .string(method), "args": arguments])
        }
        try await expectEqual(invoke("Add", [2, 3]), 5)
        // In MessagePack, .NET's names of properties begin with upper case.
        let grown: JSONValue = format == "json" ? ["name": "Bért", "age": 8] : ["Name": "Bért", "Age": 8]
        try await expectEqual(invoke("Grow", [["name": "Bért", "age": 7]]), grown)
        try await expectEqual(invoke("Who"), "anna")
        await #expect(throws: Peer.Failure.self) { try await invoke("Fail") }
        await #expect(throws: Peer.Failure.self) { try await invoke("Missing") }
        await #expect(throws: Peer.Failure.self) { try await invoke("Add", [1]) }
        await #expect(throws: Peer.Failure.self) { try await invoke("Add", ["a", "b"]) }

        try await peer.perform(["do": "on", "method": "Receive", "count": 2])
        try await peer.perform(["do": "send", "method": "Broadcast", "args": ["ü", 1.5]])
        let call = try await peer.line { $0["event"] == "called" && $0["method"] == "Receive" }
        expectEqual(call["args"], ["ü", 1.5])

        try await peer.perform(["do": "on", "method": "Answer", "count": 1, "returns": "because"])
        try await expectEqual(invoke("Ask", ["why"]), "why because")

        let counted = try await peer.perform(["do": "stream", "method": "Count", "args": [3]])
        expectEqual(counted["items"], [0, 1, 2])
        let taken = try await peer.perform(["do": "stream", "method": "Forever", "args": [], "take": 3])
        expectEqual(taken["items"]?.array?.prefix(3), [1, 2, 3])
        try await expectEqual(peer.perform(["do": "upload", "method": "Sum", "args": [10], "items": [1, 2, 3]]), 16)
        if isTypeScript {
            let doubled = try await peer.perform(["do": "upload", "method": "Double", "args": [], "items": [1, 2], "mode": "stream"])
            expectEqual(doubled["items"], [2, 4])
        }
        await #expect(throws: Peer.Failure.self) { try await peer.perform(["do": "stream", "method": "FailAfter", "args": [2]]) }

        try await invoke("Join", ["a"])
        try await invoke("ToGroup", ["a", "in"])
        _ = try await peer.line { $0["event"] == "called" && $0["args"] == ["in", 1.5] }
        try await invoke("Leave", ["a"])
        try await invoke("ToGroup", ["a", "out"])
        try await invoke("Broadcast", ["last", 2.5])
        let next = try await peer.line { $0["event"] == "called" && $0["method"] == "Receive" }
        expectEqual(next["args"], ["last", 2.5])
        try await peer.perform(["do": "stop"])
        try await eventually { disconnected.take() == ["left"] }
    }
}

/// The server with Microsoft's client for .NET in its own process, which doesn't negotiate.
@Suite(.usesSockets, .requires(.peers("dotnet-client")), .timeLimit(.minutes(10)))
struct DotNetPeerTests {
    @Test(arguments: ["json", "msgpack"])
    func `the .NET client calls every kind of method`(format: String) async throws {
        let disconnected = EventRecorder<String>()
        let server = PeerHub.makeServer(disconnected)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let peer = try Peer("dotnet-client")
        try await PeerHub.callEveryMethod(server, port, disconnected, with: peer, "ws", format, isTypeScript: false)
        await server.stop()
    }
}

/// The server with Microsoft's client for TypeScript on a page in Chromium, whose origin is another one. Serialized, because starting a browser
/// takes time.
@Suite(
    .usesSockets, .serialized, .requires(.browserPeer), .timeLimit(.minutes(10))
)
struct BrowserPeerTests {
    /// The page for all tests, and its origin. It ends with the process of the tests.
    private static let page = Task {
        let peer = try Peer("signalr-browser", ["--host", "page.example"], command: PeerCommand.browser)
        return (peer, origin: try await peer.ready()["url"]?.string ?? "")
    }

    /// Chromium keeps idle connections open that the server has ended.
    private static var listener: SocketListener {
        var limits = ListenerLimits.forTests
        limits.shutdownTimeout = .zero
        return SocketListener(limits: limits)
    }

    @Test(arguments: PeerHub.pairs)
    func `a page of an allowed origin calls every kind of method`(transport: String, format: String) async throws {
        let (peer, origin) = try await Self.page.value
        let disconnected = EventRecorder<String>()
        let server = PeerHub.makeServer(disconnected, allowing: [origin])
        let port = try await server.start(on: Self.listener).port
        try await PeerHub.callEveryMethod(server, port, disconnected, with: peer, transport, format, isTypeScript: true)
        await server.stop()
    }

    @Test(arguments: ["ws", "sse", "lp"])
    func `a page of another origin can't connect to a server on this computer`(transport: String) async throws {
        let (peer, origin) = try await Self.page.value
        expect(origin.hasPrefix("http://page.example:"))
        let server = PeerHub.makeServer(EventRecorder(), allowing: ["http://other.example"])
        let port = try await server.start(on: Self.listener).port
        for skipsNegotiation in transport == "ws" ? [false, true] : [false] {
            await #expect(throws: Peer.Failure.self) {
                try await peer.perform([
                    "do": "connect", "url": .string("http://127.0.0.1:\(port)/test"), "transport": .string(transport),
                    "skipNegotiation": .bool(skipsNegotiation),
                ])
            }
        }
        expect(server.hub("/test").connectionIDs.isEmpty)
        await server.stop()
    }
}

/// The server with Microsoft's client for TypeScript in its own process.
@Suite(.usesSockets, .requires(.peers("signalr-client")), .timeLimit(.minutes(10)))
struct SignalRServerPeerTests {
    @Test(arguments: PeerHub.pairs)
    func `the TypeScript client calls every kind of method`(transport: String, format: String) async throws {
        let disconnected = EventRecorder<String>()
        let server = PeerHub.makeServer(disconnected)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let peer = try Peer("signalr-client")
        try await PeerHub.callEveryMethod(server, port, disconnected, with: peer, transport, format, isTypeScript: true)
        await server.stop()
    }

    @Test(arguments: ["json", "msgpack"])
    func `the TypeScript client resumes after cuts, and each message arrives once and in order`(format: String) async throws {
        let server = PeerHub.makeServer(EventRecorder())
        let hub = server.hub("/test")
        let noted = EventRecorder<Int>()
        hub.on("Note") { (caller, number: Int) in noted.record(number) }
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let peer = try Peer("signalr-client")
        let url = JSONValue.string("http://127.0.0.1:\(address.port)/test")
        try await peer.perform([
            "do": "connect", "url": url, "transport": "ws", "protocol": .string(format), "stateful": true, "retry": [0],
        ])
        try await peer.perform(["do": "on", "method": "Receive"])
        let id = try #require(hub.connectionIDs.first)
        for number in 0..<500 {
            try await hub.clients.all.send("Receive", number)
            try await peer.perform(["do": "send", "method": "Note", "args": [.number(JSONNumber(number))]])
            if number % 50 == 25 { server.drop(id) }
        }
        for number in 0..<500 {
            let line = try await peer.line { ["called", "reconnecting", "closed"].contains($0["event"]?.string) }
            expectEqual(line["args"], [.number(JSONNumber(number))])
        }
        try await eventually("the server has received all") { noted.all.count == 500 }
        expect(noted.all == Array(0..<500) && hub.connectionIDs == [id])
        try await peer.perform(["do": "stop"])
        await server.stop()
    }

    @Test(arguments: [("sse", "json"), ("lp", "json"), ("lp", "msgpack")])
    func `the TypeScript client reconnects over the other transports`(transport: String, format: String) async throws {
        let server = PeerHub.makeServer(EventRecorder())
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let peer = try Peer("signalr-client")
        let url = JSONValue.string("http://127.0.0.1:\(address.port)/test")
        try await peer.perform([
            "do": "connect", "url": url, "transport": .string(transport), "protocol": .string(format), "retry": [0, 100, 500],
        ])
        let hub = server.hub("/test")
        server.close(try #require(hub.connectionIDs.first), allowReconnect: true)
        _ = try await peer.line { $0["event"] == "reconnected" }
        server.drop(try #require(hub.connectionIDs.first))
        _ = try await peer.line { $0["event"] == "reconnected" }
        if transport == "lp" {
            server.endPoll(try #require(hub.connectionIDs.first))
            try await expectEqual(peer.perform(["do": "invoke", "method": "Add", "args": [2, 3]]), 5)
        }
        server.close(try #require(hub.connectionIDs.first), error: "enough")
        let closed = try await peer.line { $0["event"] == "closed" }
        expectEqual(closed["error"]?.string?.contains("enough"), true)
        await server.stop()
    }

    @Test func `the TypeScript client falls back to the transport that isn't refused`() async throws {
        let server = PeerHub.makeServer(EventRecorder())
        server.faults.refusedTransports = [.webSockets, .serverSentEvents]
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let peer = try Peer("signalr-client")
        let url = JSONValue.string("http://127.0.0.1:\(address.port)/test")
        try await peer.perform(["do": "connect", "url": url, "transport": "any", "protocol": "json"])
        try await expectEqual(peer.perform(["do": "invoke", "method": "Add", "args": [2, 3]]), 5)
        try await peer.perform(["do": "stop"])
        await server.stop()
    }

    @Test(arguments: ["json", "msgpack"])
    func `the TypeScript client reconnects only if a close message allows it`(format: String) async throws {
        let server = PeerHub.makeServer(EventRecorder())
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let peer = try Peer("signalr-client")
        let url = JSONValue.string("http://127.0.0.1:\(address.port)/test")
        try await peer.perform(["do": "connect", "url": url, "transport": "ws", "protocol": .string(format), "retry": [0, 100, 500]])
        let hub = server.hub("/test")
        server.close(try #require(hub.connectionIDs.first), allowReconnect: true)
        _ = try await peer.line { $0["event"] == "reconnected" }
        server.drop(try #require(hub.connectionIDs.first))
        _ = try await peer.line { $0["event"] == "reconnected" }
        server.close(try #require(hub.connectionIDs.first), error: "enough")
        let closed = try await peer.line { $0["event"] == "closed" }
        expectEqual(closed["error"]?.string?.contains("enough"), true)
        await server.stop()
    }

    @Test(arguments: ["json", "msgpack"])
    func `the TypeScript client follows a redirect and reports a rejection`(format: String) async throws {
        let server = PeerHub.makeServer(EventRecorder())
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let base = "http://127.0.0.1:\(address.port)"
        server.hub("/old").redirect(to: "\(base)/test", accessToken: "secret")
        let peer = try Peer("signalr-client")
        try await peer.perform(["do": "connect", "url": .string("\(base)/old"), "protocol": .string(format)])
        try await expectEqual(peer.perform(["do": "invoke", "method": "Who", "args": []]), "anna")
        try await peer.perform(["do": "stop"])
        await #expect(throws: Peer.Failure.self) {
            try await peer.perform(["do": "connect", "url": .string("\(base)/test"), "token": "wrong"])
        }
        await server.stop()
    }
}

/// The server with clients from PyPI, each in its own process.
@Suite(.usesSockets, .requires(.pythonPeers), .timeLimit(.minutes(10)))
struct PythonPeerTests {
    /// pysignalr has only WebSockets.
    @Test(arguments: PeerHub.pairs.map { ("aiosignalr", $0, $1) } + [("pysignalr", "ws", "json"), ("pysignalr", "ws", "msgpack")])
    func `a client for Python calls every kind of method that it knows`(name: String, transport: String, format: String) async throws {
        let disconnected = EventRecorder<String>()
        let server = PeerHub.makeServer(disconnected)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let peer = try Peer(name, command: PeerCommand.python)
        let url = JSONValue.string("http://127.0.0.1:\(address.port)/test")
        try await peer.perform([
            "do": "connect", "url": url, "transport": .string(transport), "protocol": .string(format), "token": "secret",
        ])
        func invoke(_ method: String, _ arguments: JSONValue = []) async throws -> JSONValue {
            try await peer.perform(["do": "invoke", "method": .string(method), "args": arguments])
        }
        try await expectEqual(invoke("Add", [2, 3]), 5)
        try await expectEqual(invoke("Who"), "anna")
        await #expect(throws: Peer.Failure.self) { try await invoke("Fail") }
        await #expect(throws: Peer.Failure.self) { try await invoke("Missing") }

        try await peer.perform(["do": "on", "method": "Receive"])
        try await peer.perform(["do": "send", "method": "Broadcast", "args": ["ü", 1.5]])
        _ = try await peer.line { $0["event"] == "called" && $0["args"] == ["ü", 1.5] }
        try await peer.perform(["do": "on", "method": "Answer", "returns": "because"])
        try await expectEqual(invoke("Ask", ["why"]), "why because")

        try await expectEqual(peer.perform(["do": "stream", "method": "Count", "args": [3]]), [0, 1, 2])
        await #expect(throws: Peer.Failure.self) { try await peer.perform(["do": "stream", "method": "FailAfter", "args": [2]]) }
        if name == "aiosignalr" {
            try await expectEqual(peer.perform(["do": "upload", "method": "Sum", "args": [10], "items": [1, 2, 3]]), 16)
        }
        try await peer.perform(["do": "upload", "method": "Collect", "items": [1, 2, 3]])
        _ = try await peer.line { $0["event"] == "called" && $0["args"] == ["sum", 6] }
        try await peer.perform(["do": "stop"])
        try await eventually { disconnected.all == ["left"] }
        await server.stop()
    }

    @Test(arguments: [("pysignalr", "ws"), ("aiosignalr", "ws"), ("aiosignalr", "sse"), ("aiosignalr", "lp")])
    func `a client for Python is rejected`(name: String, transport: String) async throws {
        let server = PeerHub.makeServer(EventRecorder())
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let peer = try Peer(name, command: PeerCommand.python)
        let url = JSONValue.string("http://127.0.0.1:\(address.port)/test")
        await #expect(throws: Peer.Failure.self) {
            try await peer.perform(["do": "connect", "url": url, "transport": .string(transport), "token": "wrong"])
        }
        await server.stop()
    }
}
