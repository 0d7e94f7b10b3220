import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire
import Testing

/// An error of the application whose text is a secret, and that its coders throw as well.
private struct Failed: Error, CustomStringConvertible, Codable {
    var description: String { "top-secret" }

    init() {}
    init(from decoder: any Decoder) throws { throw Self() }
    func encode(to encoder: any Encoder) throws { throw Self() }
}

/// The secrecy of the application's values, errors and credentials in errors, in log messages and towards the server.
@Suite(.timeLimit(.minutes(10))) struct HubSecrecyTests {
    private static func texts(_ hub: HubFixture, _ errors: [HubError?] = []) -> String {
        let errors = errors.compactMap(\.self).map { "\($0)\n\($0.serverMessage ?? "")" }
        return (hub.log.all + hub.updates.all.map { "\($0)" } + hub.server.received.all.map { "\($0)" } + errors).joined(separator: "\n")
    }

    @Test func `of errors that the application throws, only the types are told`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("throw") { throw Failed() }
        hub.client.on("decode") { (_: Failed) in }
        hub.client.on("encode") { Failed() }
        for (number, target) in ["throw", "decode", "encode"].enumerated() {
            hub.server.send(#"{"type":1,"invocationId":"\#(target)","target":"\#(target)","arguments":[1]}"#)
            try await expectEqual(hub.server.received(number + 1).last?["error"]?.string?.contains("Failed"), true)
        }
        let items = AsyncThrowingStream<Int, any Error> { $0.finish(throwing: Failed()) }
        try await hub.client.send("sum", hub.payload(), streams: [HubUpload(items)])
        _ = try await hub.server.received(5)
        let unencodable = AsyncStream<Failed> {
            $0.yield(Failed())
            $0.finish()
        }
        try await hub.client.send("sum", hub.payload(), streams: [HubUpload(unencodable)])
        _ = try await hub.server.received(7)
        let encoding = await hubError { try await hub.client.invoke("save", Failed(), as: Int.self) }
        let call = try await hub.begin { try await $0.invoke("load", as: Failed.self) }
        // The call that wasn't sent had the number 3.
        hub.server.send(#"{"type":3,"invocationId":"4","result":1}"#)
        let decoding = await hubError { try await call.value }
        let stream = try hub.client.stream("ticks", of: Failed.self)
        hub.server.send(#"{"type":2,"invocationId":"5","item":1}"#)
        let item = await hubError { for try await _ in stream {} }
        expectEqual([encoding?.code, decoding?.code, item?.code], [.encodingFailed, .decodingFailed, .decodingFailed])
        let text = Self.texts(hub, [encoding, decoding, item])
        expect(text.contains("Failed") && !text.contains("top-secret"))
    }

    @Test func `a handler or a stream can throw an error with a message for the server`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("throw") { throw HubError(.handlerFailed, "Out of stock.") }
        hub.server.send(#"{"type":1,"invocationId":"s1","target":"throw","arguments":[]}"#)
        try await expectEqual(hub.server.received(1).last?["error"], "Out of stock.")
        let items = AsyncThrowingStream<Int, any Error> { $0.finish(throwing: HubError(.handlerFailed, "The file ended.")) }
        try await hub.client.send("sum", hub.payload(), streams: [HubUpload(items)])
        try await expectEqual(hub.server.received(3).last?["error"], "The file ended.")
    }

    @Test func `the text of a configuration has the settings of its transports`() throws {
        var configuration = try HubConfiguration(url: "https://example.org/chat")
        expect(configuration.description.contains("pollTimeout: 100.0 seconds, statefulReconnect: nil"))
        configuration.pollTimeout = .seconds(7)
        configuration.statefulReconnect = HubStatefulReconnect(bufferBytes: 42)
        expect(configuration.description.contains("pollTimeout: 7.0 seconds, statefulReconnect: "))
        expect(configuration.description.contains("bufferBytes: 42"))
    }

    @Test func `no arguments, results or items are logged`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("take") { (_: String) in }
        hub.client.on("number") { (_: Int) in }
        let call = try await hub.begin { try await $0.invoke("save", "top-secret", as: String.self) }
        hub.server.send(
            #"{"type":1,"target":"take","arguments":["top-secret"]}"#, #"{"type":1,"target":"missing","arguments":["top-secret"]}"#,
            #"{"type":1,"target":"number","arguments":["top-secret"]}"#, #"{"type":2,"invocationId":"1","item":"top-secret"}"#,
            #"{"type":1,"arguments":["top-secret"]}"#, #"{"type":3,"invocationId":"1","result":"top-secret"}"#)
        try await expectEqual(call.value, "top-secret")
        try await eventually { hub.client.counters.decodingFailures == 1 }
        let text = (hub.log.all + hub.updates.all.map { "\($0)" }).joined(separator: "\n")
        expect(text.contains("number") && !text.contains("top-secret"))
    }

    @Test func `parts of header fields, tokens and cookies are removed from texts of the server`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in
            var response = ScriptedHub.response(number)
            response.head.headers.add("Set-Cookie", "affinity=cookie-secret; Path=/")
            return response
        }
        let hub = try await HubFixture.connected(negotiates: true, script) {
            $0.accessToken = { "access-secret" }
            $0.headers = ["Cookie": "session=header-secret; theme=x", "X-Key": "key-secret-1, key-secret-2"]
        }
        hub.server.send(
            #"{"type":7,"error":"no access-secret cookie-secret header-secret key-secret-1 key-secret-2 secret-token-1 please"}"#)
        let error = try #require(hub.stopError)
        expectEqual(error.serverMessage, "no … … … … … … please")
        let text = Self.texts(hub, [error])
        for secret in ["access-secret", "cookie-secret", "header-secret", "key-secret", "secret-token"] { expect(!text.contains(secret)) }
    }

    @Test func `a long text of the server is cut after its secrets were removed, between characters`() async throws {
        let hub = try await HubFixture.connected { $0.headers = ["X-Key": "key-secret"] }
        // The secret begins before the limit and ends behind it.
        let long = "x" + String(repeating: "é", count: 2045) + "key-secret" + String(repeating: "é", count: 100_000)
        hub.server.send(#"{"type":7,"error":"\#(long)"}"#)
        let text = try #require(hub.stopError?.serverMessage)
        expect(text.utf8.count < 5000 && text.hasSuffix("é…é…"))
        expect(!text.contains("key"))
    }
}
