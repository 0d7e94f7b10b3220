import Foundation
import PrimusClient
import PrimusServer
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PrimusSwift

/// The output of `print` for public values: what they mean, and nothing of how they are stored.
@Suite(.timeLimit(.minutes(10))) struct PrintedValueTests {
    private static let texts: [(PrimusValue, String)] = [
        (nil, "null"), (true, "true"), (1, "1"), (-1.5, "-1.5"), (.double(.nan), "NaN"), (.double(-.infinity), "-Infinity"),
        ("a\"\n", #""a\"\n""#), (["a": [1, nil], "b": "c"], #"{"a":[1,null],"b":"c"}"#), ([], "[]"), ([:], "{}"),
        (.bytes([1, 2, 3]), "<3 bytes>"), (.date(PrimusDate(milliseconds: 0)), "1970-01-01T00:00:00Z"),
        (.date(PrimusDate(milliseconds: .nan)), "Invalid Date"), ([.expression(pattern: "a+", flags: "i")], "[/a+/i]"),
        (.typed(name: "Money", ["$": "5.20"]), #"Money({"$":"5.20"})"#), (.extended(type: 7, [1]), "extension 7(<1 bytes>)"),
    ]

    @Test(arguments: Self.texts) func `a value prints as JSON`(value: PrimusValue, text: String) {
        expectEqual("\(value)", text)
        expectEqual("\([value])", "[\(text)]")
    }

    @Test func `what was received prints its content`() async throws {
        let exchange = try await ExchangedValues()
        let channel = exchange.client.channel("room")
        var texts: [(Any, String)] = [
            (channel, #"PrimusChannel(name: "room")"#), (exchange.client.substream("log"), #"PrimusSubstream(name: "log")"#),
            (exchange.client.emitter, "PrimusEmitter(channel: nil)"), (channel.emitter, #"PrimusEmitter(channel: "room")"#),
        ]
        for value in exchange.received {
            switch value {
            case is PrimusMessage: texts.append((value, #"{"c":4}"#))
            case is PrimusEmitterEvent: texts.append((value, "news(5, null)"))
            case is PrimusPluginMessage: texts.append((value, #""d""#))
            case is PrimusResponderRequest: texts.append((value, "6"))
            case is PrimusServerMessage: texts.append((value, #"{"a":1}"#))
            case is PrimusServerCall: texts.append((value, #"hello("x", {"b":2})"#))
            case is PrimusEventArguments: texts.append((value, #"("x", {"b":2})"#))
            case is PrimusServerPayload: texts.append((value, "[3]"))
            case is PrimusSparkChannel:
                texts.append((value, #"PrimusSparkChannel(name: "room", spark: "\#(exchange.spark.id)")"#))
            default: break
            }
        }
        for (value, text) in texts {
            expectEqual("\(value)", text)
            expectEqual("\([value])", "[\(text)]")
        }
        expect(Set(texts.map { PrintedText.typeName(of: $0.0) }).count == 12, "\(texts)")
    }

    @Test func `the text of a value says what it means`() async throws {
        let (memory, error) = (try await InMemoryPrimus(), PrimusError(.connectionLost, "Failed."))
        let (client, retry) = (memory.client(), PrimusRetry(attempt: 1, limit: 10, delay: .seconds(1), elapsed: .zero))
        let retryText = "PrimusRetry(attempt: 1, limit: 10, delay: 1.0 seconds, elapsed: 0.0 seconds)"
        let dialect = PrimusDialect(transformer: .websockets, parser: .json, heartbeat: PrimusSpec.Heartbeat.none, version: "8")
        let dialectText = #"PrimusDialect(transformer: websockets, parser: json, heartbeat: none, version: "8")"#
        let texts: [(Any, String)] = [
            (PrimusState.closed(nil), "closed"), (PrimusState.closed(error), "closed(Failed.)"), (PrimusState.open, "open"),
            (PrimusStateChange(old: .opening, new: .reconnecting(error)), "opening -> reconnecting(Failed.)"), (retry, retryText),
            (PrimusUpdate.state(.opening), "state(opening)"), (PrimusUpdate.ended(nil), "ended"),
            (PrimusUpdate.reconnect(retry), "reconnect(\(retryText))"), (PrimusUpdate.latency(.seconds(1)), "latency(1.0 seconds)"),
            (dialect, dialectText), (PrimusUpdate.dialect(dialect), "dialect(\(dialectText))"),
            (PrimusRetryPolicy.none, "none"), (PrimusRetryPolicy.delays([.zero]), "delays([0.0 seconds])"),
            (
                PrimusRetryContext(retryCount: 1, elapsed: .zero, reason: error),
                "PrimusRetryContext(retryCount: 1, elapsed: 0.0 seconds, reason: Failed.)"
            ), (PrimusServerEvent.rejected(status: 401), "rejected(status: 401)"),
            (PrimusServerEvent.received(id: "a", .text("hunter2")), #"received(id: "a", message: <7 bytes>)"#),
            (PrimusAuthorizationDecision.reject("no"), #"reject("no", status: 401, headers: [])"#),
            (memory, #"InMemoryPrimus(url: "\#(memory.url)")"#),
            (client.messages, "EventSequence<PrimusMessage>(dropped: 0, endReason: nil)"),
        ]
        for (value, text) in texts { expectEqual("\(value)", text) }
        for value in [memory.network, memory.clock, client.updates()] as [Any] { expectNil(PrintedText.internals(of: value)) }
    }

    @Test func `sets and options print their names`() {
        expectEqual("\(PrimusServerPlugins.all)", "emitter, emit, multiplex, substream, responder")
        expectEqual("\(PrimusPluginHooks([.opened, .url]))", "opened, url")
        expectEqual("\(PrimusStandardPlugin.emitter)", "emitter")
        let connectOptions = PrimusConnectOptions(strategy: [.online, .timeout])
        connectOptions.plugins = ["emitter": PrimusEmitterPlugin.self]
        let text =
            "PrimusConnectOptions(strategy: [online, timeout], timeout: 10.0, ping: 25.0, pong: 10.0, autodetect: true, manual: false, "
        expect("\(connectOptions)".hasPrefix(text) && "\(connectOptions)".contains("plugins: [emitter], "), "\(connectOptions)")
        expectEqual("\([PrimusReadyState.open])", "[open]")
        expectEqual("\([PrimusErrorCode.other])", "[other]")
        expect("\(PrimusReconnectOptions())".hasPrefix("PrimusReconnectOptions(attempt: 1, backoff: false, "))
        let options = PrimusURLOptions(Endpoint(scheme: "https", host: "host", port: 1, target: "/a?token=secret"))
        expectEqual("\(options)", "PrimusURLOptions(https://host:1)")
    }
}
