import Foundation
@testable import PrimusSwift
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The options of Primus-Objc, before and after a client exists.
@Suite(.timeLimit(.minutes(10))) struct OptionTests {
    @Test func `the defaults are those of Primus-Objc`() {
        let options = PrimusConnectOptions()
        expect(options.timeout == 10 && options.ping == 25 && options.pong == 10 && options.autodetect && !options.manual)
        expect(options.websockets && !options.stayConnectedInBackground)
        expect(options.strategy.isEmpty && options.transformerClass == nil && options.parserClass == nil && options.plugins.isEmpty)
        let reconnect = options.reconnect
        expect(reconnect.maxDelay == Double(Int.max) && reconnect.minDelay == 0.5 && reconnect.retries == 10 && reconnect.factor == 2)
        expect(reconnect.timeout == -1 && reconnect.attempt == 1 && !reconnect.backoff && !reconnect.authorization)
        expectEqual(Set(reconnect.strategies), [.online, .disconnect, .timeout])
    }

    @Test func `an app for calls stays connected in the background by default`() {
        expect(PrimusLifecycle.hasCallMode(["UIBackgroundModes": ["audio", "voip"]]))
        for information in [nil, [:], ["UIBackgroundModes": ["audio"]], ["UIBackgroundModes": "voip"]] as [[String: Any]?] {
            expect(!PrimusLifecycle.hasCallMode(information))
        }
    }

    @Test func `options that clients share keep nothing of a client that was released`() {
        let options = PrimusConnectOptions()
        options.manual = true
        do {
            let primus = Primus(url: URL(string: "http://localhost:9090/primus")!, options: options)
            expect(options.changes.observerCount == 1 && primus.options === options)
        }
        expectEqual(options.changes.observerCount, 0)
    }

    @Test(arguments: [false, true]) func `each option has an effect, also when it is set later`(isLater: Bool) throws {
        let options = PrimusConnectOptions()
        options.manual = true
        func set() {
            (options.timeout, options.ping, options.pong, options.autodetect) = (200, 7, 3, false)
            options.transformerClass = SocketRocketClient.self
            options.parser = "msgpack"
            options.credentials = { ["Authorization": "Bearer token"] }
            let reconnect = options.reconnect
            (reconnect.minDelay, reconnect.maxDelay, reconnect.factor, reconnect.retries, reconnect.timeout) = (0.25, 8, 3, 4, 12)
            reconnect.strategies = [.disconnect]
        }
        if !isLater { set() }
        let primus = Primus(url: URL(string: "http://localhost:9090/primus")!, options: options)
        _ = primus.client
        if isLater { set() }
        let configuration = primus.client.configuration
        expect(configuration.connectTimeout == .seconds(200) && configuration.detection == .off)
        expect(configuration.pingInterval == .seconds(7) && configuration.pongTimeout == .seconds(3))
        expect(configuration.transformer == .websockets && configuration.parser == .msgpack && configuration.credentials != nil)
        expect(configuration.reconnectTimeout == .seconds(12) && configuration.strategies == .disconnect)
        guard case .backoff(let backoff) = configuration.retry else { return expect(false, "the policy is another one") }
        expectEqual(backoff, PrimusBackoff(minimum: .milliseconds(250), maximum: .seconds(8), factor: 3, retries: 4))
        options.strategy = [.timeout]
        expectEqual(primus.client.configuration.strategies, .timeout)
        options.reconnect = PrimusReconnectOptions()
        options.reconnect.retries = 1
        guard case .backoff(let other) = primus.client.configuration.retry else { return expect(false, "the policy is another one") }
        expect(other.retries == 1 && other.minimum == .milliseconds(500))
    }

    @Test(arguments: [false, true])
    func `settings without a property can be changed, except those that a client keeps`(isLater: Bool) async throws {
        let options = PrimusConnectOptions()
        options.manual = true
        func set() {
            options.configure = { configuration in
                configuration.queue = .dropOldest(50)
                configuration.pingInterval *= 2
                configuration.plugins = [.emitter]
            }
        }
        if !isLater { set() }
        let primus = Primus(url: URL(string: "http://localhost:9090/primus")!, options: options)
        _ = primus.client
        if isLater { set() }
        options.timeout = 200
        let configuration = primus.client.configuration
        expect(configuration.queue == .dropOldest(50) && configuration.plugins.isEmpty && configuration.connectTimeout == .seconds(200))
        // Changes of other options don't add up.
        expect(configuration.pingInterval == .seconds(50) && configuration.endpoint.port == 9090)
        options.configure = nil
        expect(primus.client.configuration.queue == .standard && primus.client.configuration.pingInterval == .seconds(25))
        let errors = EventRecorder<PrimusError.Code>()
        primus.on("error", queue: DispatchQueue(label: "errors")) { (error: PrimusError) in errors.record(error.code) }
        options.configure = { $0.messageLimit = 0 }
        try await eventually { errors.all == [.invalidConfiguration] }
    }

    @Test func `values that are out of range are replaced`() throws {
        let options = PrimusConnectOptions()
        options.manual = true
        (options.timeout, options.ping, options.pong) = (0, -1, .nan)
        let reconnect = options.reconnect
        (reconnect.minDelay, reconnect.maxDelay, reconnect.factor, reconnect.retries) = (-1, .infinity, .nan, -3)
        let primus = Primus(url: URL(string: "http://localhost")!, options: options)
        expect(primus.client.configuration.connectTimeout > .seconds(1_000_000_000))
        // Without them, the client wouldn't notice that its connection is dead.
        expect(primus.client.configuration.pingInterval == .seconds(25) && primus.client.configuration.pongTimeout == .seconds(10))
        guard case .backoff(let backoff) = primus.client.configuration.retry else {
            return expect(false, "the policy is another one")
        }
        expect(backoff.minimum == .zero && backoff.factor == 1 && backoff.retries == 0 && backoff.maximum == .seconds(1_000_000_000))
        #expect(throws: Never.self) { try primus.client.update { _ in } }
    }

    @Test func `a copy is independent`() throws {
        let options = PrimusConnectOptions(transformerClass: SocketRocketClient.self, strategy: [.online])
        options.reconnect.retries = 3
        let copy = try #require(options.copy() as? PrimusConnectOptions)
        options.reconnect.retries = 4
        expect(copy.transformerClass == SocketRocketClient.self && copy.strategy == [.online] && copy.reconnect.retries == 3)
    }

    @Test func `authorization adds the strategy timeout, as in Primus-Objc`() {
        let options = PrimusReconnectOptions()
        options.strategies = [.disconnect]
        options.authorization = true
        expectEqual(options.strategies, [.disconnect, .timeout])
    }

    @Test func `the user information of the URL becomes a header field, and another field wins`() {
        var request = URLRequest(url: URL(string: "http://usr:p%40ss@localhost:9090/primus?a=1&a=2")!)
        request.setValue("1", forHTTPHeaderField: "X-Version")
        let options = PrimusConnectOptions()
        options.manual = true
        let primus = Primus(urlRequest: request, options: options)
        let configuration = primus.client.configuration
        expect(configuration.headers["Authorization"] == "Basic dXNyOnBAc3M=" && configuration.headers["X-Version"] == "1")
        expect(configuration.endpoint.target == "/primus?a=1&a=2" && configuration.endpoint.port == 9090)
        request.setValue("Bearer token", forHTTPHeaderField: "Authorization")
        primus.request = request
        expectEqual(primus.client.configuration.headers["Authorization"], "Bearer token")
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .sockjs, .engineIO], [PrimusParserKind.json, .ejson])
    func `the transformer and the parser by their names`(transformer: PrimusTransformerKind, parser: PrimusParserKind) async throws {
        var server = PrimusServerConfiguration()
        (server.transformer, server.parser) = (transformer, parser)
        let test = try await PrimusFixture(server) { $0.autodetect = false }
        (test.primus.transformer, test.primus.parser) = ("\(transformer)", "\(parser)")
        let echo = test.memory.server.onMessage { message in _ = try? message.spark.write(message.value) }
        let received = EventRecorder<Bool>()
        test.primus.on("data", queue: test.queue) { (data: [String: Any]) in received.record(data["at"] is Date == (parser == .ejson)) }
        try await test.open()
        expect(test.primus.transformer == "\(transformer)" && test.primus.parser == "\(parser)")
        test.primus.write(["at": Date(timeIntervalSince1970: 1)])
        try await eventually { received.all == [true] }
        withExtendedLifetime(echo) {}
    }

    @Test func `no description contains credentials`() async throws {
        var request = URLRequest(url: try #require(URL(string: "http://usr:secret1@localhost/primus?token=secret2")))
        request.setValue("secret3", forHTTPHeaderField: "X-Token")
        let options = PrimusConnectOptions()
        options.manual = true
        let primus = Primus(urlRequest: request, options: options)
        var text = "\(primus) \(options)"
        dump(primus, to: &text)
        dump(options, to: &text)
        dump(PrimusURLOptions(primus.client.configuration.endpoint), to: &text)
        expect(!text.contains("secret"), "\(text)")
    }

    // MARK: Types of the application

    final class Reverse: ParserProtocol {
        func encode(_ data: Any, callback: ((any Error)?, Any?) -> Void) { callback(nil, String("\(data)".reversed())) }
        func decode(_ data: Any, callback: ((any Error)?, Any?) -> Void) { callback(nil, String("\(data)".reversed())) }
    }

    final class Late: ParserProtocol {
        func encode(_ data: Any, callback: ((any Error)?, Any?) -> Void) {}
        func decode(_ data: Any, callback: ((any Error)?, Any?) -> Void) {}
    }

    struct ReverseOfServer: PrimusParser {
        var name: String { "reverse" }
        func encode(_ value: PrimusValue) throws -> TransportMessage { .text(String((value.string ?? "").reversed())) }
        func decode(_ packet: TransportMessage) throws -> PrimusValue {
            .string(String(String(decoding: packet.bytes, as: UTF8.self).reversed()))
        }
    }

    @Test func `a parser of the application`() async throws {
        var server = PrimusServerConfiguration()
        server.customParser = ReverseOfServer()
        let test = try await PrimusFixture(server) { $0.parserClass = Reverse.self }
        let echo = test.memory.server.onMessage { message in _ = try? message.spark.write(message.value) }
        let received = EventRecorder<String>()
        test.primus.on("data", queue: test.queue) { (text: String, raw: String) in received.record("\(text) \(raw)") }
        try await test.open()
        test.primus.write("abc")
        try await eventually { received.all == ["abc cba"] }
        withExtendedLifetime(echo) {}
    }

    @Test func `a parser that calls back too late is an error`() async throws {
        let test = try await PrimusFixture { $0.parserClass = Late.self }
        let errors = EventRecorder<String>()
        test.primus.on("error", queue: test.queue) { (error: PrimusError) in errors.record(error.message) }
        expect(!test.primus.write("abc"))
        try await eventually { errors.all.first?.contains("must call its callback before") == true }
    }

    final class Quoting: TransformerProtocol {
        let name = "quoting"
        func packets(in message: TransportMessage) throws -> [TransportMessage] {
            [.text(String(decoding: message.bytes.dropFirst(), as: UTF8.self))]
        }
        func message(for packet: TransportMessage) -> TransportMessage { .text(">" + String(decoding: packet.bytes, as: UTF8.self)) }
    }

    @Test func `a transformer of the application`() async throws {
        let test = try await PrimusFixture { ($0.transformerClass, $0.autodetect) = (Quoting.self, false) }
        try await test.open()
        let events = test.memory.server.events.makeAsyncIterator()
        test.primus.write(1)
        while let event = await events.next() {
            guard case .received(_, let message) = event else { continue }
            expectEqual(message, .text(">1"))
            break
        }
    }

    @Test func `a plugin registers listeners and transforms once`() async throws {
        final class Plugin: PluginProtocol {
            init(primus: Primus) {
                primus.on("open") { [weak primus] in _ = primus?.write("from the plugin") }
                primus.transform("outgoing") { data in
                    data["data"] = ["wrapped": data["data"]]
                    return true
                }
            }
        }
        let test = try await PrimusFixture { $0.plugins = ["mine": Plugin.self] }
        let received = EventRecorder<PrimusValue>()
        let observation = test.memory.server.onMessage { received.record((try? $0.value) ?? nil) }
        test.primus.open()
        try await eventually { received.all == [["wrapped": "from the plugin"]] }
        expect(test.primus.plugins["mine"] is Plugin)
        test.primus.end()
        try await test.awaits("end")
        test.primus.open()
        try await eventually { received.all.count == 2 }
        withExtendedLifetime(observation) {}
    }

    @Test func `options that can't work are an error, and don't end the program`() async throws {
        final class Other {}
        for change: (PrimusConnectOptions) -> Void in [
            { $0.transformerClass = Other.self }, { $0.parserClass = Other.self }, { $0.transformer = "socket.io" },
            { ($0.transformer, $0.parser) = ("sockjs", "msgpack") }, { $0.parser = "bson" },
        ] {
            let test = try await PrimusFixture(PrimusServerConfiguration(), change)
            let errors = EventRecorder<String>()
            test.primus.on("error", queue: test.queue) { (error: NSError) in errors.record(error.localizedDescription) }
            test.primus.open()
            try await eventually { test.trace.all.contains("end") }
            expect(errors.all.count == 1 && test.trace.all.filter { $0 == "end" }.count == 1, "\(errors.all)")
        }
        let options = PrimusConnectOptions()
        (options.manual, options.plugins) = (true, ["what": 1])
        let primus = Primus(url: URL(string: "ftp://")!, options: options)
        let errors = EventRecorder<String>()
        primus.on("error") { (error: PrimusError) in errors.record(error.message) }
        primus.open()
        try await eventually { errors.all.count == 2 }
        expect(errors.all[0].contains("\"what\"") && errors.all[1].contains("URL"), "\(errors.all)")
    }

    @Test func `an invalid class stays an error when other options are set`() async throws {
        final class Other {}
        let test = try await PrimusFixture(PrimusServerConfiguration()) { $0.parserClass = Other.self }
        _ = test.primus.client
        test.options.timeout = 5
        test.primus.open()
        try await eventually { test.trace.all.contains("end") }
        expect(test.trace.all.contains("error") && !test.trace.all.contains("open"))
    }

    @Test func `an invalid request isn't replaced by an earlier one`() async throws {
        let test = try await PrimusFixture()
        let valid = test.primus.request
        _ = test.primus.client
        test.primus.request = URLRequest(url: try #require(URL(string: "ftp://localhost")))
        try await eventually { test.trace.all == ["error"] }
        test.primus.open()
        try await eventually { test.trace.all.contains("end") }
        expect(!test.trace.all.contains("open") && test.memory.server.sparks.isEmpty)
        test.primus.request = valid
        test.primus.open()
        try await test.awaits("open")
        // An open client isn't affected by another call.
        _ = test.trace.take()
        test.primus.request = URLRequest(url: try #require(URL(string: "ftp://localhost")))
        test.primus.open()
        test.primus.end()
        try await test.awaits("end")
        expectEqual(test.trace.all.filter { $0 == "error" || $0 == "end" }, ["error", "end"], "\(test.trace.all)")
    }

    /// A parser that asks its client for its state.
    final class Asking: ParserProtocol {
        static let clients = EventRecorder<Primus>()
        func encode(_ data: Any, callback: ((any Error)?, Any?) -> Void) {
            callback(nil, String("\(data)".reversed()) + (Self.clients.all.last?.readyState == .closed ? "" : "!"))
        }
        func decode(_ data: Any, callback: ((any Error)?, Any?) -> Void) { callback(nil, String("\(data)".reversed())) }
    }

    @Test func `a parser that replaces another one writes the messages that wait, without a lock`() async throws {
        var server = PrimusServerConfiguration()
        server.customParser = ReverseOfServer()
        let test = try await PrimusFixture(server)
        let received = EventRecorder<PrimusValue>()
        let record = test.memory.server.onMessage { message in if let value = try? message.value { received.record(value) } }
        test.primus.write("abc")
        Asking.clients.record(test.primus)
        test.options.parserClass = Asking.self
        test.primus.open()
        try await eventually { received.all == ["abc"] }
        test.primus.end()
        record.cancel()
    }

    @Test func `the events of an end aren't lost when the client is opened again with other plugins`() async throws {
        let test = try await PrimusFixture()
        try await test.open()
        test.primus.end()
        test.options.plugins = ["multiplex": "multiplex"]
        test.primus.open()
        try await test.awaits("open")
        let all = test.trace.all
        expect(all.filter { $0 == "close" } == ["close"] && all.filter { $0 == "end" } == ["end"], "\(all)")
    }

    @Test func `changed parsers apply when the client is opened again`() async throws {
        let test = try await PrimusFixture()
        try await test.open()
        test.primus.end()
        try await test.awaits("end")
        test.options.parserClass = Late.self
        expectNil(test.primus.client.configuration.customParser)
        test.primus.open()
        expectEqual(test.primus.client.configuration.customParser?.name, "Late")
    }

    // MARK: Set after initialization

    @Test(arguments: [PrimusTransformerKind.websockets, .faye, .engineIO, .sockjs])
    func `SocketRocketClient is a WebSocket of the server's transformer`(transformer: PrimusTransformerKind) async throws {
        var server = PrimusServerConfiguration()
        server.transformer = transformer
        let test = try await PrimusFixture(server) { $0.transformerClass = SocketRocketClient.self }
        try await test.open()
        expect(test.primus.client.dialect?.transformer == transformer && test.primus.client.transport == .webSockets)
    }

    /// A client with a server in memory that opens by itself, unless it is manual.
    @MainActor private static func fresh(isManual: Bool = false) async throws -> (InMemoryPrimus, Primus) {
        var server = PrimusServerConfiguration()
        server.plugins = .emitter
        let memory = try await InMemoryPrimus(configuration: server)
        let options = PrimusFixture.options(memory)
        (options.manual, options.plugins) = (isManual, ["emitter": PrimusEmitterPlugin.self])
        return (memory, Primus(url: URL(string: memory.url)!, options: options))
    }

    @Test(arguments: ["write", "send", "acknowledgement"]) @MainActor
    func `calls of the typed client wait for a client that opens by itself`(call: String) async throws {
        let (memory, primus) = try await Self.fresh()
        let received = EventRecorder<PrimusValue>()
        let observations = [
            memory.server.onMessage { received.record((try? $0.value) ?? nil) },
            memory.server.on("news") { call in
                received.record((try? call.arguments.values.first) ?? nil)
                try? call.acknowledge(2)
            },
        ]
        // The client opens in a later turn of the main queue, which runs this test.
        switch call {
        case "write": try await primus.client.write(1)
        case "send": try await primus.client.emitter.send("news", 1)
        default: try await expectEqual(primus.client.emitter.send("news", 1, as: Int.self), 2)
        }
        try await eventually { received.all == [1] }
        primus.end()
        withExtendedLifetime(observations) {}
    }

    @Test @MainActor func `calls of the typed client of a manual client don't wait`() async throws {
        let (_, primus) = try await Self.fresh(isManual: true)
        await #expect(throws: PrimusError.self) { try await primus.client.write(1) }
        await #expect(throws: PrimusError.self) { try await primus.client.emitter.send("news", 1, as: Int.self) }
    }

    @Test func `manual applies to a client that hasn't been opened yet`() async throws {
        let test = try await PrimusFixture()
        // A client that would open by itself, and doesn't any more.
        let (options, opened) = (PrimusFixture.options(test.memory), EventRecorder<String>())
        await MainActor.run {
            options.manual = false
            let primus = Primus(url: URL(string: test.memory.url)!, options: options)
            primus.on("open", queue: test.queue) { opened.record("never") }
            options.manual = true
            expectEqual(primus.readyState, .closed)
            primus.end()
        }
        await MainActor.run {}
        // A client that waits, and doesn't any more.
        test.options.manual = false
        try await test.awaits("open")
        expect(opened.all.isEmpty && test.memory.server.sparks.count == 1)
        // One that was ended isn't opened by it.
        test.primus.end()
        try await test.awaits("end")
        test.options.manual = true
        test.options.manual = false
        await MainActor.run {}
        try await test.settle()
        expect(test.trace.all.last == "end" && test.memory.server.sparks.isEmpty)
    }

    @Test func `a strategy that is set while the client is connected applies to the next loss`() async throws {
        let test = try await PrimusFixture()
        try await test.open()
        test.options.strategy = [.timeout]
        test.memory.network.cut()
        try await test.awaits("end")
        expect(!test.trace.all.contains("reconnect scheduled"))
        _ = test.trace.take()
        test.options.strategy = []
        try await test.open()
        test.options.reconnect.strategies = [.disconnect]
        test.memory.network.cut()
        try await test.awaits("open")
        expect(test.trace.all.contains("reconnect scheduled"))
    }

    @Test func `the strategy online that is set while the client is connected applies to the network`() async throws {
        let monitor = NetworkPathMonitor()
        let test = try await PrimusFixture {
            $0.transports?.networkPath = monitor
            $0.strategy = [.disconnect]
            ($0.reconnect.minDelay, $0.reconnect.maxDelay) = (1000, 2000)
        }
        try await test.open()
        test.memory.network.condition = .down
        test.memory.network.cut()
        try await eventually { test.trace.all.last == "reconnect scheduled" }
        test.memory.network.condition = .up
        monitor.pathChanged()
        expectEqual(test.primus.attemptOptions?.backoff, true)
        test.options.strategy = [.disconnect, .online]
        // Without waiting for the delay.
        test.memory.clock.advance(by: .seconds(1))
        monitor.pathChanged()
        try await eventually { test.trace.all.last == "open" }
    }

    @Test func `delays, factor and retries that are set while the client is connected apply to the next loss`() async throws {
        let test = try await PrimusFixture()
        let delays = EventRecorder<Double>()
        test.primus.on("reconnect scheduled", queue: test.queue) { (options: PrimusReconnectOptions) in delays.record(options.scheduled) }
        try await test.open()
        let reconnect = test.options.reconnect
        (reconnect.minDelay, reconnect.maxDelay, reconnect.factor, reconnect.retries) = (100, 350, 3, 3)
        test.memory.network.condition = .down
        test.memory.network.cut()
        try await eventually {
            test.memory.clock.advance(by: .seconds(1))
            return test.trace.all.contains("reconnect failed")
        }
        let all = delays.all
        expect(all.count == 3 && (100...200).contains(all[0]) && all.dropFirst().allSatisfy { (100...350).contains($0) }, "\(all)")
    }

    @Test func `ping, pong and the time limits that are set before the client is opened`() async throws {
        var server = PrimusServerConfiguration()
        server.version = .v6
        let test = try await PrimusFixture(server)
        _ = test.primus.client
        (test.options.ping, test.options.pong) = (3, 2)
        try await test.open()
        test.memory.server.faults.isSilent = true
        // A ping after 3 seconds, and 2 more for the answer.
        for (_, isOffline) in [(1, false), (2, false), (3, false), (4, false), (5, true)] {
            test.memory.clock.advance(by: .seconds(1))
            await test.drainQueue()
            expectEqual(test.primus.online, !isOffline)
        }
        expectEqual(test.trace.all.prefix(2), ["outgoing::ping", "offline"], "\(test.trace.all)")
    }

    @Test func `plugins and transports that are set later are used from the next opening, and written messages aren't lost`() async throws {
        var server = PrimusServerConfiguration()
        server.plugins = .emitter
        let (first, second) = (try await InMemoryPrimus(), try await PrimusFixture(server))
        let received = EventRecorder<PrimusValue>()
        let observation = second.memory.server.onMessage { received.record((try? $0.value) ?? nil) }
        let calls = second.memory.server.on("chat") { received.record(.string($0.event)) }
        let options = PrimusFixture.options(first)
        let primus = Primus(url: URL(string: second.memory.url)!, options: options)
        expect(primus.write("early") && !primus.send("chat"))
        options.transports = second.memory.network.transports()
        options.plugins = ["emitter": PrimusEmitterPlugin.self]
        primus.open()
        expect(primus.send("chat", 1))
        try await eventually { received.all.count == 2 }
        expect(Set(received.all) == ["early", "chat"] && primus.plugins["emitter"] != nil)
        primus.end()
        withExtendedLifetime((observation, calls)) {}
    }

    @Test(arguments: [false, true])
    func `messages in a transform aren't lost or reordered when a client with other plugins replaces it`(isEnding: Bool) async throws {
        var server = PrimusServerConfiguration()
        server.plugins = .emitter
        let test = try await PrimusFixture(server)
        let received = EventRecorder<PrimusValue>()
        let observation = test.memory.server.onMessage { received.record((try? $0.value) ?? nil) }
        let gate = Signal()
        test.primus.transform("outgoing") { data in
            await gate.wait()
            data["data"] = ["transformed": data["data"]]
            return true
        }
        // A client that was ended keeps its connection while messages are in the transforms.
        if isEnding { try await test.open() }
        for text in ["first", "second"] { expect(test.primus.write(text)) }
        if isEnding { test.primus.end() }
        test.options.plugins = ["emitter": PrimusEmitterPlugin.self]
        test.primus.open()
        expect(test.primus.write("third"))
        gate.send()
        try await eventually { received.all.count == 3 }
        try await test.settle()
        expectEqual(received.all, ["first", "second", "third"].map { ["transformed": .string($0)] })
        withExtendedLifetime(observation) {}
    }

    @Test func `messages that are written while another thread replaces the client aren't lost`() async throws {
        let test = try await PrimusFixture()
        let received = EventRecorder<Int>()
        let observation = test.memory.server.onMessage { message in
            if let number = (try? message.value)?.int { received.record(Int(number)) }
        }
        let (primus, count) = (test.primus, 5_000)
        let writing = Task.detached {
            for number in 0..<count {
                // The queue has room for 1,024.
                while primus.client.queuedCount > 1_000 { await Task.yield() }
                expect(primus.write(number))
            }
        }
        for _ in 0..<50 {
            test.options.plugins = ["emitter": PrimusEmitterPlugin.self]
            primus.open()
            try await eventually { primus.readyState == .open }
            primus.end()
        }
        primus.open()
        await writing.value
        try await eventually { received.all.count >= count }
        expectEqual(received.all.sorted(), Array(0..<count))
        withExtendedLifetime(observation) {}
    }

    @Test func `a log that is set later receives the messages from the next opening on`() async throws {
        let test = try await PrimusFixture()
        _ = test.primus.client
        let lines = EventRecorder<String>()
        test.options.log = LogSink(minimumLevel: .debug) { _, _, message in lines.record(message) }
        try await test.open()
        try await eventually { lines.all.contains { $0.contains("connecting to") } }
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `without websockets, a client connects with polling, also when that is set later`(
        _ transformer: PrimusTransformerKind
    ) async throws {
        var server = PrimusServerConfiguration()
        server.transformer = transformer
        let test = try await PrimusFixture(server)
        try await test.open()
        expectEqual(test.primus.client.transport, .webSockets)
        for isAllowed in [false, true] {
            test.primus.end()
            try await test.awaits("end")
            test.options.websockets = isAllowed
            try await test.open()
            // What worked before has no effect on a client that is opened again.
            try await eventually { (test.primus.client.transport == .webSockets) == isAllowed }
        }
    }

    @Test func `without websockets, a server that has nothing else is an error`() async throws {
        let test = try await PrimusFixture { $0.websockets = false }
        let errors = EventRecorder<String>()
        test.primus.on("error", queue: test.queue) { (error: PrimusError) in errors.record(error.message) }
        test.primus.open()
        try await test.awaits("end")
        expectEqual(
            errors.all, ["The transformer websockets has WebSockets only. Allow webSockets, or use engine.io or sockjs on the server."])
    }

    @Test func `detection that is switched on later is used`() async throws {
        var server = PrimusServerConfiguration()
        (server.transformer, server.parser) = (.engineIO, .msgpack)
        let test = try await PrimusFixture(server) { $0.autodetect = false }
        _ = test.primus.client
        test.options.autodetect = true
        try await test.open()
        expect(test.primus.transformer == "engine.io" && test.primus.parser == "msgpack")
    }

    @Test func `a transformerClass and a parserClass that are set later are used from the next opening on`() async throws {
        var server = PrimusServerConfiguration()
        server.customParser = ReverseOfServer()
        let test = try await PrimusFixture(server) { $0.autodetect = false }
        let echo = test.memory.server.onMessage { message in _ = try? message.spark.write(message.value) }
        let received = EventRecorder<String>()
        test.primus.on("data", queue: test.queue) { (text: String) in received.record(text) }
        _ = test.primus.client
        (test.options.transformerClass, test.options.parserClass) = (SocketRocketClient.self, Reverse.self)
        try await test.open()
        test.primus.write("abc")
        try await eventually { received.all == ["abc"] }
        expect(test.primus.transformer == "websockets" && test.primus.parser == "Reverse")
        withExtendedLifetime(echo) {}
    }

    // MARK: Background

    @Test func `a lifecycle, and whether to stay connected, that are set later are followed`() async throws {
        let (first, second) = (App(), App())
        let test = try await PrimusFixture { ($0.lifecycle, $0.stayConnectedInBackground) = (first.lifecycle, false) }
        try await test.open()
        test.options.lifecycle = second.lifecycle
        expect(first.calls.all == ["end of observation"] && second.handlers.all.count == 1)
        second.change(.enteredBackground)
        expect(second.calls.all.isEmpty)
        test.options.stayConnectedInBackground = true
        second.change(.enteredBackground)
        second.change(.becameActive)
        expectEqual(second.calls.all, ["time", "end of time"])
        // Other changes don't observe again.
        test.options.timeout = 3
        expectEqual(second.handlers.all.count, 1)
    }

    final class App: Sendable {
        let handlers = EventRecorder<@Sendable (PrimusLifecycle.Event) -> Void>()
        let calls = EventRecorder<String>()

        var lifecycle: PrimusLifecycle {
            PrimusLifecycle { handler in
                self.handlers.record(handler)
                return { self.calls.record("end of observation") }
            } requestTime: {
                self.calls.record("time")
                return { self.calls.record("end of time") }
            }
        }

        func change(_ event: PrimusLifecycle.Event) { for handler in self.handlers.all { handler(event) } }
    }

    @Test func `a client asks for time in the background, and checks its connection afterwards`() async throws {
        let app = App()
        let test = try await PrimusFixture { ($0.lifecycle, $0.stayConnectedInBackground) = (app.lifecycle, true) }
        app.change(.enteredBackground)
        expect(app.calls.all.isEmpty)
        try await test.open()
        app.change(.enteredBackground)
        expectEqual(app.calls.all, ["time"])
        test.memory.network.condition = .silent
        app.change(.becameActive)
        expectEqual(app.calls.all, ["time", "end of time"])
        // The check gives up after 10 seconds, long before the heartbeat does.
        for _ in 0..<11 { test.memory.clock.advance(by: .seconds(1)) }
        try await eventually { test.trace.all.contains("reconnect scheduled") }
    }

    @Test func `a client in the background doesn't ask for time unless it shall stay connected`() async throws {
        let app = App()
        let test = try await PrimusFixture { ($0.lifecycle, $0.stayConnectedInBackground) = (app.lifecycle, false) }
        try await test.open()
        test.memory.network.condition = .down
        app.change(.enteredBackground)
        test.memory.network.cut()
        try await eventually { test.trace.all.last == "reconnect scheduled" }
        test.memory.network.condition = .up
        // Without waiting for the delay.
        app.change(.becameActive)
        try await eventually { test.trace.all.last == "open" }
        expect(app.calls.all.isEmpty)
    }

    @Test func `a released client ends its observation`() async throws {
        let app = App()
        do {
            let options = PrimusConnectOptions()
            (options.lifecycle, options.manual) = (app.lifecycle, true)
            _ = Primus(url: URL(string: "http://localhost")!, options: options)
        }
        expectEqual(app.calls.all, ["end of observation"])
    }
}
