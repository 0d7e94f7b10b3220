import Foundation
import PrimusServer
import PrimusTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PrimusClient
@testable import PrimusSwift
@testable import PrimusWire

/// The text of the public values of Primus.
@Suite(.timeLimit(.minutes(10))) struct PrimusRedactionTests {
    /// A part of every secret in these tests.
    private static let marker = "hunter2"
    private static let text = "secret-\(marker)"
    private static let headers: HTTPHeaders = ["Authorization": "Bearer \(text)", "Cookie": text, "X-Token": text]
    private static let endpoint = Endpoint(
        scheme: "https", host: "\(marker):\(marker)@host", port: 443, target: "/primus?token=\(marker)")
    private static let error = PrimusError(.connectionLost, "Failed.")

    /// Values that contain the marker wherever they can contain a secret, by the names of their types.
    private static func secretValues(_ exchange: ExchangedValues) throws -> [Any] {
        var configuration = PrimusConfiguration(Self.endpoint, transports: exchange.memory.network.transports())
        configuration.headers = Self.headers
        configuration.credentials = { [text = Self.text] in PrimusCredentials(query: [("token", text)]) }
        configuration.transforms = [PrimusTransform(.incoming) { [text = Self.text] _ in !text.isEmpty }]
        let options = PrimusConnectOptions()
        options.credentials = configuration.credentials
        options.reconnect = PrimusReconnectOptions()
        let primus = Primus(url: try #require(URL(string: "https://\(Self.marker)@host/primus?token=\(Self.marker)")), options: options)
        return [
            configuration, PrimusConnection(configuration), exchange.client, exchange.spark, exchange.memory.server,
            exchange.memory, PrimusCredentials(headers: Self.headers, query: [("token", Self.text)]), configuration.transforms[0],
            options, PrimusURLOptions(Self.endpoint), primus.on("open") {}, PrimusServerEvent.received(id: "1", .text(Self.text)),
            exchange.client.messages(as: String.self), exchange.client.messages(as: String.self).makeAsyncIterator(),
            exchange.client.emitter, exchange.client.emits, exchange.client.channel("room"), exchange.client.substream("log"),
        ] + exchange.received
    }

    /// Values without secrets.
    private static var otherValues: [Any] {
        let spec = PrimusSpec(version: "8", heartbeat: .none)
        let retry = PrimusRetry(attempt: 1, limit: 10, delay: .seconds(1), elapsed: .zero)
        return [
            Self.error, Self.error.code, PrimusErrorCode.unableToRetry, PrimusState.closed(Self.error), PrimusUpdate.reconnect(retry),
            retry,
            PrimusBackoff(), PrimusBufferLimit(), PrimusQueuePolicy.dropOldest(1), PrimusWriteMode.queue, PrimusRetryPolicy.none,
            PrimusRetryContext(retryCount: 1, elapsed: .zero, reason: Self.error), PrimusStrategies.all, PrimusDetection.automatic,
            PrimusDialect(transformer: .websockets, parser: .json, heartbeat: PrimusSpec.Heartbeat.none, version: "8"),
            PrimusCloseCode(.webSocket, 1006), PrimusCloseCode.Layer.webSocket, PrimusTransport.polling, PrimusTransportKinds.all,
            PrimusTransform.Direction.incoming, PrimusPluginHooks.opened, PrimusStandardPlugin.emitter, spec, spec.heartbeat,
            PrimusParserKind.json, PrimusTransformerKind.sockjs, PrimusValue.null, PrimusValue.Object([("a", 1)]),
            PrimusDate(milliseconds: 0), PrimusParserError(.invalidPacket, "Failed."), PrimusParserError.Code.invalidPacket,
            PrimusServerConfiguration(), PrimusServerConfiguration.Version.v8, PrimusServerPlugins.all, PrimusServerFaults(),
            PrimusServerError.disconnected, PrimusAuthorizationDecision.accept, PrimusReadyState.open, PrimusReconnectOptions(),
            PrimusReconnectionStrategy.online, PrimusLifecycle.standard, PrimusLifecycle.Event.becameActive,
            PrimusTransformData(value: 1), PrimusEmitterPlugin(), SocketRocketClient(),
        ]
    }

    @Test func `the text of a public value contains no secret, and every public type is tested`() async throws {
        let exchange = try await ExchangedValues {
            $0.headers = Self.headers
            $0.credentials = { [text = Self.text] in PrimusCredentials(query: [("token", text)]) }
        }
        let values = try Self.secretValues(exchange) + Self.otherValues
        for value in values {
            let name = PrintedText.typeName(of: value)
            expectNil(PrintedText.texts(of: value).first { $0.contains(Self.marker) }, "\(name)")
            expectNil(PrintedText.internals(of: value), "\(name)")
        }
        let declared = try PublicDeclarations.types(in: "Sources/Primus")
        let listed = Set(values.map { PrintedText.typeName(of: $0) })
        expectEqual(declared.subtracting(listed).sorted(), [], "add a value of each new type to one of the lists")
        expectEqual(listed.subtracting(declared).sorted(), [], "remove the types that no longer exist")
    }
}
