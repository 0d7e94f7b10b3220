import Foundation
import PrimusClient
import PrimusServer
import PrimusTesting
import RealtimeCore
import RealtimeTesting

// The snippets of the documentation of Primus.

private struct Reading: Codable, Sendable {
    var sensor: Int
    var celsius: Double
}

private struct Todo: Codable, Sendable {
    var text: String
}

private struct Tokens: Sendable {
    func current() async throws -> String { "token" }
}

private struct Signer: Sendable {
    func signature(of message: PrimusValue) async throws -> String { "signature" }
}

private func connect() async throws {
    // snippet:primus-client
    let primus = PrimusConnection(try PrimusConfiguration(url: "https://example.org/primus"))
    primus.open()
    for await reading in primus.messages(as: Reading.self) {
        print(reading)
    }
    // end
}

private func update(_ primus: PrimusConnection) throws {
    // snippet:primus-update
    try primus.update { $0.retry = .primus }
    // end
}

private func channel(_ primus: PrimusConnection) async throws {
    // snippet:primus-channel
    let news = primus.channel("news")
    try await news.write("hello")
    for await message in news.messages {
        print(try message.decode(as: String.self))
    }
    // end
}

private func substream(_ primus: PrimusConnection) async throws {
    // snippet:primus-substream
    let log = primus.substream("log")
    try await log.write("started")
    // end
}

private func emitter(_ primus: PrimusConnection) async throws {
    // snippet:primus-emitter
    try await primus.emitter.send("log", "started")
    let todos: [Todo] = try await primus.emitter.send("find", "todos")
    for await event in primus.emitter.on("news") {
        print(try event.decode(String.self))
    }
    // end
    _ = todos
}

private func acknowledgements(_ primus: PrimusConnection) async throws {
    // snippet:primus-emitter-returning
    let (error, todo) = try await primus.emitter.send("get", 5, returning: String?.self, Todo?.self)
    // end
    _ = (error, todo)
}

private func emits(_ primus: PrimusConnection) async throws {
    // snippet:primus-emits
    try await primus.emits.send("log", "started")
    // end
}

private func questions(_ primus: PrimusConnection, answer find: @Sendable (String) -> String) async throws {
    func answer(to text: String) -> String { find(text) }
    // snippet:primus-acknowledge
    for await event in primus.emitter.on("question") {
        let text = try event.decode(String.self)
        try event.acknowledge(answer(to: text))
    }
    // end
}

private func request(_ primus: PrimusConnection) async throws {
    // snippet:primus-request
    let reply: Int = try await primus.request(["add": [1, 2]])
    // end
    _ = reply
}

private func respond(_ primus: PrimusConnection) {
    // snippet:primus-respond
    let registration = primus.onRequest { request in
        _ = try? request.respond(["time": Date.now])
    }
    // end
    _ = registration
}

private func configure(tokens: Tokens) throws {
    // snippet:primus-configuration
    var configuration = try PrimusConfiguration(url: "https://example.org/primus")
    configuration.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] }
    let primus = PrimusConnection(configuration)
    // end
    _ = primus
}

private func credentials(_ configuration: inout PrimusConfiguration, tokens: Tokens) {
    // snippet:primus-credentials
    configuration.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] }
    configuration.credentials = { PrimusCredentials(query: [("token", try await tokens.current())]) }
    // end
}

private func messages(_ primus: PrimusConnection) async throws {
    // snippet:primus-messages
    for await message in primus.messages {
        print(try message.decode(as: Reading.self))
    }
    // end
}

private func plugin(_ configuration: inout PrimusConfiguration) {
    // snippet:primus-plugin
    struct Stamp: PrimusPlugin {
        let name = "stamp"
        let hooks: PrimusPluginHooks = [.outgoing]
        func outgoing(_ message: inout PrimusValue) async throws -> Bool {
            message = ["stamped": true, "data": message]
            return true
        }
    }
    configuration.plugins = [.emitter, Stamp()]
    // end
}

private func standardPlugins(_ configuration: inout PrimusConfiguration) {
    // snippet:primus-standard-plugins
    configuration.plugins = [.emitter, .multiplex]
    // end
}

private func transforms(_ configuration: inout PrimusConfiguration, signer: Signer) {
    // snippet:primus-transforms
    configuration.transforms = [
        .incoming { message in message["hidden"]?.bool != true },
        .outgoing { message in
            message = ["data": message, "signature": .string(try await signer.signature(of: message))]
            return true
        },
    ]
    // end
}

private func serve(network: InMemoryNetwork) async throws {
    // snippet:primus-server
    let server = PrimusServer(network: network)
    let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
    let address = try await server.start(on: network.listener())
    // end
    _ = (echo, address)
}

private func test() async throws {
    // snippet:primus-testing
    let primus = try await InMemoryPrimus()
    let client = primus.client()
    client.open()
    try await client.opened(within: .seconds(5))
    try primus.server.write(["celsius": 21.5])
    // end
}

// snippet:primus-parser
struct Lines: PrimusParser {
    let name = "lines"
    func encode(_ value: PrimusValue) throws -> TransportMessage { .text(value.string ?? "") }
    func decode(_ packet: TransportMessage) throws -> PrimusValue { .string(String(decoding: packet.bytes, as: UTF8.self)) }
}
// end

private func value() throws {
    // snippet:primus-value
    let reading = try PrimusValue(encoding: Reading(sensor: 7, celsius: 21.5))
    let celsius = reading["celsius"]?.double
    // end
    _ = celsius
}
