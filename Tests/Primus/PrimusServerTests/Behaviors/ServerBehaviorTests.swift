import PrimusClient
import PrimusTesting
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// The behaviors of authorization, transforms, requests and plugins that Primus tests over each of its transformers.
///
/// Source: `test/transformer.base.js` of Primus 8.0.9, `#transform`, `Authorization` and `Server`. A direction of a transform that doesn't exist
/// can't be written in Swift. The same with real servers is tested in `ClientPeerTests` and `PluginPeerTests`.
@Suite(.timeLimit(.minutes(10))) struct ServerBehaviorTests {
    // MARK: Transforms

    /// Waits in the middle of an asynchronous transform.
    private static func pause(_ isAsynchronous: Bool) async {
        guard isAsynchronous else { return }
        for _ in 0..<10 { await Task.yield() }
    }

    @Test(arguments: BehaviorKind.all, [false, true])
    func `transforms of a client rewrite and veto what it sends`(kind: BehaviorKind, isAsynchronous: Bool) async throws {
        let test = try await Behavior(kind)
        let values = EventRecorder<PrimusValue>()
        let token = test.record(values)
        let client = try await test.openClient { configuration in
            configuration.transforms = [
                .outgoing { message in
                    await Self.pause(isAsynchronous)
                    message = ["data": message]
                    return true
                },
                .outgoing { message in
                    await Self.pause(isAsynchronous)
                    return message["data"] != "secret"
                },
            ]
        }
        client.enqueue(1)
        let error = await #expect(throws: PrimusError.self) { try await client.write("secret") }
        expectEqual(error?.code, .vetoed)
        for number in 2..<10 { client.enqueue(.int(Int64(number))) }
        try await eventually { values.all.count == 9 }
        expectEqual(values.all, (1..<10).map { ["data": .int($0)] })
        client.end()
        token.cancel()
    }

    @Test(arguments: BehaviorKind.all, [false, true])
    func `transforms of a client rewrite and veto what it receives`(kind: BehaviorKind, isAsynchronous: Bool) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient { configuration in
            configuration.transforms = [
                .incoming { message in
                    await Self.pause(isAsynchronous)
                    guard message != "secret" else { return false }
                    message = ["data": message]
                    return true
                }
            ]
        }
        let messages = client.messages.makeAsyncIterator()
        for value: PrimusValue in [1, "secret", 2, "secret", 3] { try test.server.write(value) }
        for number in 1...3 { try await expectEqual(messages.next()?.value, ["data": .int(Int64(number))]) }
        client.end()
    }

    @Test(arguments: BehaviorKind.all)
    func `transforms of a server rewrite and veto in both directions`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind) { configuration in
            configuration.transformIncoming = { $0 == "secret" ? nil : ["in": $0] }
            configuration.transformOutgoing = { $0["in"] == "hidden" ? nil : ["out": $0] }
        }
        let echo = test.echo()
        let client = try await test.openClient()
        let messages = client.messages.makeAsyncIterator()
        for value: PrimusValue in [1, "secret", "hidden", 2] { try await client.write(value) }
        for number in 1...2 { try await expectEqual(messages.next()?.value, ["out": ["in": .int(Int64(number))]]) }
        client.end()
        echo.cancel()
    }

    // MARK: Authorization

    @Test(arguments: BehaviorKind.all)
    func `a declined client reads the status, the message and the challenge, and stops`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind) { configuration in
            configuration.authorize = { _ in .reject("I failed", headers: ["WWW-Authenticate": "Basic realm=\"primus\""]) }
        }
        let client = test.client()
        let events = client.events()
        client.open()
        let error = try #require(await #expect(throws: PrimusError.self) { try await client.opened(within: Behavior.limit) })
        expect(error.code == .unauthorized && error.status == 401 && error.serverMessage == "I failed")
        expectEqual(error.headers?["WWW-Authenticate"], "Basic realm=\"primus\"")
        test.advance(by: .seconds(600))
        expect(client.isClosed && client.driver.nextDeadline == nil)
        await expectEqual(events.names(), ["readyStateChange opening", "error", "readyStateChange end", "close", "end"])
    }

    @Test(arguments: BehaviorKind.all)
    func `a client that is declined with another status reads it, and tries again`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind) { configuration in
            configuration.authorize = { $0.headers["X-Number"] == "1" ? .reject("Later", status: 418) : .accept }
        }
        let client = test.client { configuration in
            let attempts = EventRecorder<Void>()
            configuration.credentials = {
                attempts.record(())
                return ["X-Number": "\(attempts.all.count)"]
            }
        }
        let errors = client.errors
        client.open()
        try await test.recover(client)
        let all = await errors.pending()
        expect(all.map(\.status) == [418] && all.map(\.serverMessage) == ["Later"], "\(all)")
        client.end()
    }

    @Test(arguments: BehaviorKind.all)
    func `a client that is accepted talks to the server`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind) { configuration in
            configuration.authorize = { $0.headers["Authorization"] == "Bearer T" ? .accept : .reject("Who are you?") }
        }
        let echo = test.echo()
        let client = try await test.openClient { $0.credentials = { ["Authorization": "Bearer T"] } }
        let messages = client.messages.makeAsyncIterator()
        try await client.write("balls")
        try await expectEqual(messages.next()?.value, "balls")
        client.end()
        echo.cancel()
    }

    @Test(arguments: BehaviorKind.all)
    func `the user name and the password of a URL arrive as a header field`(
        kind: BehaviorKind
    ) async throws {
        let test = try await Behavior(kind)
        let address = test.primus.address
        var configuration = try PrimusConfiguration(url: "http://usr:pass@\(address.host):\(address.port)/primus")
        (configuration.transports, configuration.log) = (test.configuration().transports, .none)
        configuration.connectionKinds = kind.connections
        let client = test.client(configuration)
        client.open()
        try await client.opened(within: Behavior.limit)
        expectEqual(test.server.sparks.first?.request.headers["Authorization"], "Basic dXNyOnBhc3M=")
        client.end()
    }

    // MARK: Requests

    @Test(arguments: BehaviorKind.all) func `the server receives the query and all header fields`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let endpoint = try Endpoint("\(test.primus.url)?foo=bar&foo=b%20r&empty")
        let client = try await test.openClient { configuration in
            configuration.endpoint = endpoint
            configuration.headers = ["X-Name": "value", "User-Agent": "test"]
        }
        let spark = try #require(test.server.sparks.first)
        expectEqual(spark.query.filter { $0.name == "foo" }.map(\.value), ["bar", "b r"], "\(spark.query)")
        expect(spark.query.contains { $0 == ("empty", "") })
        expect(spark.request.headers["X-Name"] == "value" && spark.request.headers["User-Agent"] == "test")
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `a server at another path is found there`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind) { $0.pathname = "/deep/path" }
        let client = try await test.openClient()
        expectEqual(test.server.sparks.first?.request.path.hasPrefix("/deep/path"), true)
        client.end()
    }

    // MARK: Plugins

    @Test(arguments: BehaviorKind.all)
    func `events, channels, streams and requests travel both ways`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind) { $0.plugins = .all }
        let tokens = [
            test.server.on("add") { call in
                if let (a, b) = try? call.arguments.decode(Int.self, Int.self) { try? call.acknowledge(a + b) }
            },
            test.server.onChannel("news") { event in
                if case .message(let channel, let payload) = event { try? channel.write(["echo": payload.value]) }
            },
            test.server.onRequest { _, payload, respond in respond(((try? payload.value.int) ?? 0) * 2) },
        ]
        let client = try await test.openClient { $0.plugins = [.emitter, .multiplex, .substream, .responder] }
        try await expectEqual(client.emitter.send("add", 1, 2, within: Behavior.limit) as Int, 3)
        try await expectEqual(client.request(21, within: Behavior.limit) as Int, 42)
        let channel = client.channel("news")
        let messages = channel.messages.makeAsyncIterator()
        try await channel.write("a")
        try await expectEqual(messages.next()?.value, ["echo": "a"])
        // The client joins again by itself.
        test.network.cut()
        try await test.recover(client)
        try await channel.write("b")
        try await expectEqual(messages.next()?.value, ["echo": "b"])
        client.end()
        for token in tokens { token.cancel() }
    }
}
