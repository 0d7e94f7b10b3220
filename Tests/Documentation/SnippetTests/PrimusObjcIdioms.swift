import Foundation
import PrimusSwift

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

// The code in the tables of the article MigratingFromPrimusObjc. A test checks that each piece is in this file.

private final class MyParser: ParserProtocol {
    func encode(_ data: Any, callback: ((any Error)?, Any?) -> Void) { callback(nil, "\(data)") }
    func decode(_ data: Any, callback: ((any Error)?, Any?) -> Void) { callback(nil, data) }
}

private struct Tokens: Sendable {
    func current() async throws -> String { "token" }
}

/// The lines of the README of Primus-Objc.
private func readmeForms() {
    let url = URL(string: "http://localhost:9090/primus")!
    let primus = Primus(url: url)
    primus.on("reconnect") { (options: PrimusReconnectOptions) in print(options.attempt) }
    primus.on("online") { print("online") }
    primus.on("offline") { print("offline") }
    primus.on("open") { print("open") }
    primus.on("error") { (error: NSError) in print(error.code) }
    primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
    primus.on("end") { print("end") }
    primus.on("close") { print("close") }
    var request = URLRequest(url: url)
    request.setValue("Bearer <your-oauth-token-here>", forHTTPHeaderField: "Authorization")
    let authorized = Primus(urlRequest: request)
    let options = PrimusConnectOptions()
    options.transformerClass = SocketRocketClient.self
    options.strategy = [.timeout]
    options.timeout = 200
    options.manual = true
    let manual = Primus(url: url, options: options)
    manual.open()
    primus.write(["my-data": 123])
    primus.write("example-data")
    primus.end()
    primus.transform("incoming") { data in
        data["foo"] = "bar"
        return true
    }
    authorized.end()
}

/// Lines that the README doesn't show.
private func otherForms(
    _ primus: Primus, _ options: PrimusConnectOptions, _ listener: PrimusListener, _ tokens: Tokens
) -> Bool {
    primus.once("open") { print("open") }
    primus.removeListener("data", listener)
    primus.removeAllListeners("data")
    primus.removeAllListeners()
    primus.emit("event", 1)
    primus.id { id in print(id ?? "") }
    primus.end("bye")
    options.stayConnectedInBackground = true
    options.reconnect.retries = 3
    options.plugins = ["emitter": PrimusEmitterPlugin.self]
    primus.send("event", ["a": 1])
    options.parserClass = MyParser.self
    options.websockets = false
    options.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] }
    options.log = .none
    options.configure = { $0.queue = .dropOldest(50) }
    return primus.readyState == .open
}

/// The typed API.
private func typedForms() async throws {
    var configuration = try PrimusConfiguration(url: "http://localhost:9090/primus")
    configuration.headers["X-Version"] = "1"
    configuration.strategies = .timeout
    configuration.connectTimeout = .seconds(200)
    configuration.allowedTransports = .polling
    configuration.retry = .primus
    configuration.transformer = .websockets
    configuration.plugins = [.emitter]
    configuration.transforms = [.incoming { message in !message.isNull }]
    let connection = PrimusConnection(configuration)
    connection.open()
    for await state in connection.states { print(state) }
    for await change in connection.stateChanges where change.old == .open { print(change.new) }
    for await case .ended(let error) in connection.updates() { print(error?.message ?? "ended") }
    for await update in connection.updates() { print(update) }
    for await message in connection.messages(as: [String: Int].self) { print(message) }
    for await error in connection.errors { print(error) }
    try await connection.write(["my-data": 123])
    try await connection.emitter.send("event", ["a": 1])
    let id = try await connection.id()
    connection.end()
    print(id)
}
