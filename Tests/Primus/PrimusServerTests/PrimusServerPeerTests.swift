import PeerSupport
import PrimusServer
import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Records the requests of clients, and passes them on.
///
/// A hook of the server would do so in a task. Beside tests that keep the threads of all tasks busy, clients of Primus 6, which wait 10 seconds
/// for the answer to a ping, would give up their connections, and with them what the test has sent.
private final class RecordingHandler: ListenerHandler {
    let requests = EventRecorder<HTTPRequestHead>()
    private let handler: any ListenerHandler

    init(_ handler: any ListenerHandler) { self.handler = handler }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.requests.record(request)
        self.handler.received(request, body: body, responder: responder)
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.requests.record(request)
        return self.handler.upgrade(request)
    }

    func bodyLimit(for request: HTTPRequestHead) -> Int? { self.handler.bodyLimit(for: request) }
}

/// The clients of Primus 8 and 6 with the embedded server. Those for engine.io begin with polling and move to a WebSocket.
///
/// One case runs at a time: many programs that start at the same time would keep each other from answering in time.
@Suite(
    .serialized, .usesSockets, .timeLimit(.minutes(10)),
    .requires(.peers("primus-client", "primus6-client")))
struct PrimusServerPeerTests {
    struct Pair: Sendable, CustomTestStringConvertible {
        var client: String
        var transformer: PrimusTransformerKind
        var parser: PrimusParserKind
        /// How the client connects; `nil` for a WebSocket, and with engine.io for polling and then a WebSocket.
        var transport: SockJSTransport?
        var testDescription: String {
            "\(self.client), \(self.transformer), \(self.parser)" + (self.transport.map { ", \($0.rawValue)" } ?? "")
        }
        var isOld: Bool { self.client == "primus6-client" }

        /// The options of the client that select the transport, and others.
        func options(and others: [String: JSONValue]) -> JSONValue {
            guard case .object(var options) = self.transportOptions else { return self.transportOptions }
            for (name, value) in others { options[name] = value }
            return .object(options)
        }

        private var transportOptions: JSONValue {
            switch (self.transformer, self.transport) {
            case (_, nil): [:]
            case (.engineIO, _): ["websockets": false]
            case (_, .xhr?): ["transport": ["transports": ["xhr-polling"]]]
            case (_, .xhrStreaming?): ["transport": ["transports": ["xhr-streaming"]]]
            case (_, .eventSource?): ["transport": ["transports": ["eventsource"]]]
            case (_, .websocket?), (_, .xhrSend?): ["transport": ["transports": ["websocket"]]]
            }
        }

        /// Whether a client with this transport makes a request.
        func makes(_ request: HTTPRequestHead) -> Bool {
            switch (self.transformer, self.transport) {
            case (_, nil): true
            case (.engineIO, _): !request.query.contains("transport=websocket")
            case (_, let transport?):
                // The information, and messages of the client.
                request.path.hasSuffix("/info") || request.path.hasSuffix("/xhr_send") || request.path.hasSuffix("/\(transport.rawValue)")
            }
        }
    }

    static let pairs: [Pair] = {
        var pairs: [Pair] = []
        for parser in PrimusParserKind.builtIn {
            for transformer in [PrimusTransformerKind.websockets, .faye] {
                pairs.append(Pair(client: "primus-client", transformer: transformer, parser: parser))
            }
            if parser != .msgpack { pairs.append(Pair(client: "primus6-client", transformer: .websockets, parser: parser)) }
        }
        for client in ["primus-client", "primus6-client"] {
            for parser in PrimusParserKind.builtIn where parser != .msgpack || client == "primus-client" {
                pairs.append(Pair(client: client, transformer: .engineIO, parser: parser))
            }
            for parser in [PrimusParserKind.json, .ejson] { pairs.append(Pair(client: client, transformer: .sockjs, parser: parser)) }
        }
        return pairs
    }()

    /// The transports over HTTP. Those of SockJS that remain, jsonp-polling and htmlfile, need a page.
    static let overHTTP: [Pair] =
        ["primus-client", "primus6-client"].flatMap { client in
            [Pair(client: client, transformer: .engineIO, parser: .json, transport: .xhr)]
                + [SockJSTransport.xhr, .xhrStreaming, .eventSource].map {
                    Pair(client: client, transformer: .sockjs, parser: .json, transport: $0)
                }
        } + [Pair(client: "primus-client", transformer: .engineIO, parser: .binary, transport: .xhr)]

    /// One of each transformer and version, over each transport.
    private static let kinds = (pairs + overHTTP).filter { $0.parser == .json }

    /// Runs a server that echoes, and a client.
    private func with(
        _ pair: Pair, plugins: String = "", options: [String: JSONValue] = [:],
        _ configure: (inout PrimusServerConfiguration) -> Void = { _ in },
        _ body: (PrimusServer, Peer, EventRecorder<HTTPRequestHead>) async throws -> Void
    ) async throws {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.parser) = (pair.transformer, pair.parser)
        if pair.isOld { configuration.version = .v6 }
        // Beside other tests, a client may need long until it asks for messages again.
        (configuration.sockJSDisconnectDelay, configuration.enginePingTimeout) = (.seconds(300), .seconds(300))
        (configuration.authorizationTimeout, configuration.engineProbeTimeout) = (.seconds(600), .seconds(600))
        configure(&configuration)
        let server = PrimusServer(configuration: configuration, log: .none)
        let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
        let handler = RecordingHandler(server.listenerHandler)
        let requests = handler.requests
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(handler)
        let client = try Peer(
            pair.client,
            ["--transformer", "\(pair.transformer)", "--parser", "\(pair.parser)"] + (plugins.isEmpty ? [] : ["--plugins", plugins]))
        try await client.perform([
            "do": "open", "url": .string("http://127.0.0.1:\(address.port)/?token=1"), "options": pair.options(and: options),
        ])
        _ = try await client.line { $0["event"]?.string == "open" }
        try await body(server, client, requests)
        let unexpected = requests.all.filter { !pair.makes($0) }.map(\.target)
        expectEqual(unexpected, [])
        echo.cancel()
        client.stop()
        await listener.stop()
        await server.stop()
    }

    /// Returns the spark of a client. On a busy machine, a client may give up its connection, and have the ID of an ended one for a while.
    private func spark(_ server: PrimusServer, _ client: Peer) async throws -> PrimusSpark {
        var spark: PrimusSpark?
        try await eventually {
            let id = try await client.perform(["do": "id"]).string
            spark = server.sparks.first { $0.id == id }
            return spark != nil
        }
        return try #require(spark)
    }

    /// Sends a value, and expects it back.
    private func echo(_ value: JSONValue, _ client: Peer) async throws {
        try await client.perform(["do": "write", "data": value])
        let line = try await client.line { $0["event"]?.string == "data" }
        expectEqual(line["data"], value)
    }

    @Test(arguments: Self.pairs + Self.overHTTP)
    func `a client of Primus writes, receives and learns its ID`(pair: Pair) async throws {
        try await self.with(pair) { server, client, requests in
            for value: JSONValue in [["a": [1, "ä\u{2028}", nil]], "text", 0, true, "100% %41"] { try await self.echo(value, client) }
            try await expectEqual(self.spark(server, client).query.first?.value, "1")
            guard pair.transport == nil else { return }
            // Now or soon, messages need no further requests.
            try await eventually {
                let count = requests.all.count
                try await self.echo("over the WebSocket", client)
                return requests.all.count == count
            }
            let targets = requests.all.map { String($0.target) }
            switch pair.transformer {
            case .engineIO: expect(targets.contains { $0.contains("transport=websocket") && $0.contains("sid=") }, "\(targets)")
            case .sockjs: expect(targets.contains { $0.contains("/websocket") }, "\(targets)")
            default: break
            }
        }
    }

    @Test(arguments: Self.kinds)
    func `a client of Primus ends for good, or reconnects if it may`(pair: Pair) async throws {
        try await self.with(pair) { server, client, _ in
            let first = try await self.spark(server, client)
            first.end(reconnects: true)
            try await eventually {
                _ = try await client.line { $0["event"]?.string == "reconnected" }
                return try await self.spark(server, client).id != first.id
            }
            // A client on a busy machine may have given up its connection again, and be about to open another one.
            let late = server.onConnection { spark in spark.end() }
            server.endAll()
            _ = try await client.line { $0["event"]?.string == "end" }
            try await eventually { server.sparks.isEmpty }
            late.cancel()
        }
    }

    @Test(arguments: Self.pairs.filter { $0.transformer == .websockets && $0.parser == .json })
    func `a client of Primus answers heartbeats, or sends them`(pair: Pair) async throws {
        let (options, text): ([String: JSONValue], String) = pair.isOld ? (["ping": 200], "primus::ping::") : ([:], "primus::pong::")
        try await self.with(pair, options: options) {
            $0.pingInterval = .milliseconds(200)
        } _: { server, _, _ in
            var count = 0
            for await event in server.events {
                guard case .received(_, let message) = event, String(decoding: message.bytes, as: UTF8.self).contains(text) else {
                    continue
                }
                count += 1
                if count == 3 { break }
            }
            expectEqual(count, 3)
        }
    }

    @Test(arguments: Self.kinds)
    func `the plugins of Primus talk to the server`(pair: Pair) async throws {
        // The packages of Primus 6 have only two of the plugins.
        try await self.with(pair, plugins: pair.isOld ? "emitter,substream" : "emitter,multiplex,substream,responder") {
            $0.plugins = [.emitter, .multiplex, .substream, .responder]
        } _: { server, client, _ in
            let add = server.on("add") { call in
                if let (a, b) = try? call.arguments.decode(Int.self, Int.self) { try? call.acknowledge(a + b) }
            }
            try await expectEqual(client.perform(["do": "send", "event": "add", "args": [1, 2], "ack": true]), [3])
            try await client.perform(["do": "on", "event": "ask", "ack": [42]])
            let spark = try await self.spark(server, client)
            try await expectEqual(spark.call("ask", "?", within: .seconds(600)).decode(Int.self), 42)

            let stream = server.onSubstream("sub") { spark, payload in
                if let value = try? payload?.value { try? spark.write(value, toSubstream: "sub") }
            }
            try await client.perform(["do": "substream", "name": "sub"])
            try await client.perform(["do": "substreamWrite", "name": "sub", "data": "x"])
            try await expectEqual(client.line { $0["event"]?.string == "substream data" }["data"], "x")
            for token in [add, stream] { token.cancel() }
            if pair.isOld { return }

            let channel = server.onChannel("a") { event in
                if case .message(let channel, let payload) = event, let value = try? payload.value { try? channel.write(["echo": value]) }
            }
            try await client.perform(["do": "channel", "name": "a"])
            try await client.perform(["do": "channelWrite", "name": "a", "data": 5])
            try await expectEqual(client.line { $0["event"]?.string == "channel data" }["data"], ["echo": 5])

            let responder = server.onRequest { _, payload, respond in respond(((try? payload.value.int) ?? 0) + 1) }
            try await expectEqual(client.perform(["do": "request", "data": 41]), 42)
            for token in [channel, responder] { token.cancel() }
        }
    }
}
