import Foundation
import PrimusServer
import PrimusSwift
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

// The lines of the README of Primus-Objc in Swift, as code of the main actor, of an actor, and of no actor contains them. This file is
// compiled in Swift 5 and in Swift 6 mode. The lines run with the server of this package on a port; instead of `NSLog`, they call a
// recorder.

/// The lines of the README, in code of the main actor.
@MainActor final class ReadmeOnMainActor {
    let log = EventRecorder<String>()
    nonisolated var name: String { "README" }

    func start(_ url: URL) -> Primus {
        let primus = Primus(url: url)
        let log = self.log

        primus.on("reconnect") { (options: PrimusReconnectOptions) in
            log.record("[reconnect] - We are scheduling a new reconnect attempt")
        }
        primus.on("online") {
            log.record("[network] - We have regained control over our internet connection.")
        }
        primus.on("offline") {
            log.record("[network] - We lost our internet connection.")
        }
        primus.on("open") {
            log.record("[open] - The connection has been established.")
        }
        primus.on("error") { (error: NSError) in
            log.record("[error] - Error: \(error.code)")
        }
        primus.on("data") { (data: [String: Any], raw: Any) in
            log.record("[data] - Received data: \(data)")
        }
        primus.on("end") {
            log.record("[end] - The connection has ended.")
        }
        primus.on("close") {
            log.record("[close] - We've lost the connection to the server.")
        }
        return primus
    }

    func startWithRequest(_ url: URL) -> Primus {
        var request = URLRequest(url: url)
        request.setValue("Bearer <your-oauth-token-here>", forHTTPHeaderField: "Authorization")
        return Primus(urlRequest: request)
    }

    func startWithOptions(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.transformerClass = SocketRocketClient.self
        options.strategy = [.timeout]
        options.timeout = 200
        options.manual = true
        return Primus(url: url, options: options)
    }

    func connectManually(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.manual = true
        let primus = Primus(url: url, options: options)
        // Calling 'open' will start the connection
        primus.open()
        return primus
    }

    func broadcast(_ primus: Primus) {
        primus.write([
            "my-data": 123
        ])
        primus.write("example-data")
        primus.write(Data([1, 2, 3]))
    }

    func disconnect(_ primus: Primus) {
        primus.end()
    }

    func transform(_ primus: Primus) {
        primus.transform("incoming") { data in
            data["foo"] = "bar"
            return true
        }
    }

    func transformWithSelf(_ primus: Primus) {
        primus.transform("incoming") { [weak self] data in
            guard let self else { return true }
            data["bar"] = self.name
            return data["secret"] == nil
        }
    }

    func useEmitter(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.plugins = ["emitter": PrimusEmitterPlugin.self]
        options.stayConnectedInBackground = true
        let primus = Primus(url: url, options: options)
        primus.send("news", ["title": "Hello"])
        let log = self.log
        primus.on("answer") { (text: String) in log.record("[answer] \(text)") }
        return primus
    }
}

/// The lines of the README, in code of an actor.
actor ReadmeInActor {
    let log = EventRecorder<String>()
    nonisolated var name: String { "README" }

    func start(_ url: URL) -> Primus {
        let primus = Primus(url: url)
        let log = self.log

        primus.on("reconnect") { (options: PrimusReconnectOptions) in
            log.record("[reconnect] - We are scheduling a new reconnect attempt")
        }
        primus.on("online") {
            log.record("[network] - We have regained control over our internet connection.")
        }
        primus.on("offline") {
            log.record("[network] - We lost our internet connection.")
        }
        primus.on("open") {
            log.record("[open] - The connection has been established.")
        }
        primus.on("error") { (error: NSError) in
            log.record("[error] - Error: \(error.code)")
        }
        primus.on("data") { (data: [String: Any], raw: Any) in
            log.record("[data] - Received data: \(data)")
        }
        primus.on("end") {
            log.record("[end] - The connection has ended.")
        }
        primus.on("close") {
            log.record("[close] - We've lost the connection to the server.")
        }
        return primus
    }

    func startWithRequest(_ url: URL) -> Primus {
        var request = URLRequest(url: url)
        request.setValue("Bearer <your-oauth-token-here>", forHTTPHeaderField: "Authorization")
        return Primus(urlRequest: request)
    }

    func startWithOptions(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.transformerClass = SocketRocketClient.self
        options.strategy = [.timeout]
        options.timeout = 200
        options.manual = true
        return Primus(url: url, options: options)
    }

    func connectManually(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.manual = true
        let primus = Primus(url: url, options: options)
        // Calling 'open' will start the connection
        primus.open()
        return primus
    }

    func broadcast(_ primus: Primus) {
        primus.write([
            "my-data": 123
        ])
        primus.write("example-data")
        primus.write(Data([1, 2, 3]))
    }

    func disconnect(_ primus: Primus) {
        primus.end()
    }

    func transform(_ primus: Primus) {
        primus.transform("incoming") { data in
            data["foo"] = "bar"
            return true
        }
    }

    func transformWithSelf(_ primus: Primus) {
        primus.transform("incoming") { [weak self] data in
            guard let self else { return true }
            data["bar"] = self.name
            return data["secret"] == nil
        }
    }

    func useEmitter(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.plugins = ["emitter": PrimusEmitterPlugin.self]
        options.stayConnectedInBackground = true
        let primus = Primus(url: url, options: options)
        primus.send("news", ["title": "Hello"])
        let log = self.log
        primus.on("answer") { (text: String) in log.record("[answer] \(text)") }
        return primus
    }
}

/// The lines of the README, in code of no actor.
final class ReadmeNonisolated: Sendable {
    let log = EventRecorder<String>()
    nonisolated var name: String { "README" }

    func start(_ url: URL) -> Primus {
        let primus = Primus(url: url)
        let log = self.log

        primus.on("reconnect") { (options: PrimusReconnectOptions) in
            log.record("[reconnect] - We are scheduling a new reconnect attempt")
        }
        primus.on("online") {
            log.record("[network] - We have regained control over our internet connection.")
        }
        primus.on("offline") {
            log.record("[network] - We lost our internet connection.")
        }
        primus.on("open") {
            log.record("[open] - The connection has been established.")
        }
        primus.on("error") { (error: NSError) in
            log.record("[error] - Error: \(error.code)")
        }
        primus.on("data") { (data: [String: Any], raw: Any) in
            log.record("[data] - Received data: \(data)")
        }
        primus.on("end") {
            log.record("[end] - The connection has ended.")
        }
        primus.on("close") {
            log.record("[close] - We've lost the connection to the server.")
        }
        return primus
    }

    func startWithRequest(_ url: URL) -> Primus {
        var request = URLRequest(url: url)
        request.setValue("Bearer <your-oauth-token-here>", forHTTPHeaderField: "Authorization")
        return Primus(urlRequest: request)
    }

    func startWithOptions(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.transformerClass = SocketRocketClient.self
        options.strategy = [.timeout]
        options.timeout = 200
        options.manual = true
        return Primus(url: url, options: options)
    }

    func connectManually(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.manual = true
        let primus = Primus(url: url, options: options)
        // Calling 'open' will start the connection
        primus.open()
        return primus
    }

    func broadcast(_ primus: Primus) {
        primus.write([
            "my-data": 123
        ])
        primus.write("example-data")
        primus.write(Data([1, 2, 3]))
    }

    func disconnect(_ primus: Primus) {
        primus.end()
    }

    func transform(_ primus: Primus) {
        primus.transform("incoming") { data in
            data["foo"] = "bar"
            return true
        }
    }

    func transformWithSelf(_ primus: Primus) {
        primus.transform("incoming") { [weak self] data in
            guard let self else { return true }
            data["bar"] = self.name
            return data["secret"] == nil
        }
    }

    func useEmitter(_ url: URL) -> Primus {
        let options = PrimusConnectOptions()
        options.plugins = ["emitter": PrimusEmitterPlugin.self]
        options.stayConnectedInBackground = true
        let primus = Primus(url: url, options: options)
        primus.send("news", ["title": "Hello"])
        let log = self.log
        primus.on("answer") { (text: String) in log.record("[answer] \(text)") }
        return primus
    }
}

/// A server of this package on a port.
struct ReadmeServer: Sendable {
    let server: PrimusServer
    let url: URL

    static func start() async throws -> ReadmeServer {
        var configuration = PrimusServerConfiguration()
        configuration.plugins = .emitter
        let server = PrimusServer(configuration: configuration, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let url = try #require(URL(string: "http://\(address.host):\(address.port)/primus"))
        return ReadmeServer(server: server, url: url)
    }

    /// Waits until a client is connected.
    func spark() async throws -> PrimusSpark {
        try await eventually { !self.server.sparks.isEmpty }
        let spark = self.server.sparks.first
        return try #require(spark)
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ReadmeTests {
    @Test @MainActor func `the lines of the README in code of the main actor`() async throws {
        let server = try await ReadmeServer.start()
        let received = EventRecorder<PrimusValue>()
        let observation = server.server.onMessage { received.record((try? $0.value) ?? nil) }
        let code = ReadmeOnMainActor()
        let log = code.log
        let primus = code.start(server.url)
        let spark = try await server.spark()
        try await eventually { log.all == ["[open] - The connection has been established."] }
        code.broadcast(primus)
        try await eventually { received.all.count == 3 }
        #expect(received.all == [["my-data": 123], "example-data", .bytes([1, 2, 3])])
        code.transform(primus)
        code.transformWithSelf(primus)
        try spark.write(["a": "b"])
        try await eventually { log.all.count == 2 }
        #expect(log.all[1].contains("foo") && log.all[1].contains("README"))
        code.disconnect(primus)
        try await eventually { log.all.last == "[end] - The connection has ended." }
        #expect(log.all.suffix(2).first == "[close] - We've lost the connection to the server.")
        try await eventually { server.server.sparks.isEmpty }

        let withRequest = code.startWithRequest(server.url)
        let authorized = try await server.spark()
        #expect(authorized.request.headers["Authorization"] == "Bearer <your-oauth-token-here>")
        withRequest.end()
        try await eventually { server.server.sparks.isEmpty }

        let withOptions = code.startWithOptions(server.url)
        #expect(withOptions.client.configuration.connectTimeout == .seconds(200) && withOptions.readyState == .closed)
        #expect(withOptions.client.configuration.transformer == .websockets && withOptions.client.configuration.strategies == .timeout)
        let manual = code.connectManually(server.url)
        _ = try await server.spark()
        manual.end()
        try await eventually { server.server.sparks.isEmpty }

        let news = EventRecorder<[PrimusValue]>()
        let second = server.server.on("news") { call in
            news.record((try? call.arguments.values) ?? [])
            try? call.spark.send("answer", "Thanks")
        }
        let emitter = code.useEmitter(server.url)
        try await eventually { news.all == [[["title": "Hello"]]] && log.all.last == "[answer] Thanks" }
        emitter.end()
        withExtendedLifetime((observation, second)) {}
        await server.server.stop()
    }

    @Test func `the lines of the README in code of an actor`() async throws {
        let server = try await ReadmeServer.start()
        let received = EventRecorder<PrimusValue>()
        let observation = server.server.onMessage { received.record((try? $0.value) ?? nil) }
        let code = ReadmeInActor()
        let log = code.log
        let primus = await code.start(server.url)
        let spark = try await server.spark()
        try await eventually { log.all == ["[open] - The connection has been established."] }
        await code.broadcast(primus)
        try await eventually { received.all.count == 3 }
        #expect(received.all == [["my-data": 123], "example-data", .bytes([1, 2, 3])])
        await code.transform(primus)
        await code.transformWithSelf(primus)
        try spark.write(["a": "b"])
        try await eventually { log.all.count == 2 }
        #expect(log.all[1].contains("foo") && log.all[1].contains("README"))
        await code.disconnect(primus)
        try await eventually { log.all.last == "[end] - The connection has ended." }
        #expect(log.all.suffix(2).first == "[close] - We've lost the connection to the server.")
        try await eventually { server.server.sparks.isEmpty }

        let withRequest = await code.startWithRequest(server.url)
        let authorized = try await server.spark()
        #expect(authorized.request.headers["Authorization"] == "Bearer <your-oauth-token-here>")
        withRequest.end()
        try await eventually { server.server.sparks.isEmpty }

        let withOptions = await code.startWithOptions(server.url)
        #expect(withOptions.client.configuration.connectTimeout == .seconds(200) && withOptions.readyState == .closed)
        #expect(withOptions.client.configuration.transformer == .websockets && withOptions.client.configuration.strategies == .timeout)
        let manual = await code.connectManually(server.url)
        _ = try await server.spark()
        manual.end()
        try await eventually { server.server.sparks.isEmpty }

        let news = EventRecorder<[PrimusValue]>()
        let second = server.server.on("news") { call in
            news.record((try? call.arguments.values) ?? [])
            try? call.spark.send("answer", "Thanks")
        }
        let emitter = await code.useEmitter(server.url)
        try await eventually { news.all == [[["title": "Hello"]]] && log.all.last == "[answer] Thanks" }
        emitter.end()
        withExtendedLifetime((observation, second)) {}
        await server.server.stop()
    }

    @Test func `the lines of the README in code of no actor`() async throws {
        let server = try await ReadmeServer.start()
        let received = EventRecorder<PrimusValue>()
        let observation = server.server.onMessage { received.record((try? $0.value) ?? nil) }
        let code = ReadmeNonisolated()
        let log = code.log
        let primus = code.start(server.url)
        let spark = try await server.spark()
        try await eventually { log.all == ["[open] - The connection has been established."] }
        code.broadcast(primus)
        try await eventually { received.all.count == 3 }
        #expect(received.all == [["my-data": 123], "example-data", .bytes([1, 2, 3])])
        code.transform(primus)
        code.transformWithSelf(primus)
        try spark.write(["a": "b"])
        try await eventually { log.all.count == 2 }
        #expect(log.all[1].contains("foo") && log.all[1].contains("README"))
        code.disconnect(primus)
        try await eventually { log.all.last == "[end] - The connection has ended." }
        #expect(log.all.suffix(2).first == "[close] - We've lost the connection to the server.")
        try await eventually { server.server.sparks.isEmpty }

        let withRequest = code.startWithRequest(server.url)
        let authorized = try await server.spark()
        #expect(authorized.request.headers["Authorization"] == "Bearer <your-oauth-token-here>")
        withRequest.end()
        try await eventually { server.server.sparks.isEmpty }

        let withOptions = code.startWithOptions(server.url)
        #expect(withOptions.client.configuration.connectTimeout == .seconds(200) && withOptions.readyState == .closed)
        #expect(withOptions.client.configuration.transformer == .websockets && withOptions.client.configuration.strategies == .timeout)
        let manual = code.connectManually(server.url)
        _ = try await server.spark()
        manual.end()
        try await eventually { server.server.sparks.isEmpty }

        let news = EventRecorder<[PrimusValue]>()
        let second = server.server.on("news") { call in
            news.record((try? call.arguments.values) ?? [])
            try? call.spark.send("answer", "Thanks")
        }
        let emitter = code.useEmitter(server.url)
        try await eventually { news.all == [[["title": "Hello"]]] && log.all.last == "[answer] Thanks" }
        emitter.end()
        withExtendedLifetime((observation, second)) {}
        await server.server.stop()
    }

    /// As in the README, the client is a local variable.
    @Test func `a client without a reference stays connected`() async throws {
        let server = try await ReadmeServer.start()
        let log = EventRecorder<String>()
        func start() {
            let primus = Primus(url: server.url)
            primus.on("data") { (text: String) in log.record(text) }
        }
        start()
        let spark = try await server.spark()
        try spark.write("hello")
        try await eventually { log.all == ["hello"] }
        spark.end()
        try await eventually { server.server.sparks.isEmpty }
        await server.server.stop()
    }

    @Test func `a client that fails authorization emits an error with the code of the server`() async throws {
        var configuration = PrimusServerConfiguration()
        configuration.authorize = { _ in .reject("Authorization failed", status: 402) }
        // The task of the hook may wait for other tests for longer than the usual limits.
        configuration.authorizationTimeout = .seconds(600)
        var limits = ListenerLimits()
        limits.upgradeTimeout = .seconds(600)
        let server = PrimusServer(configuration: configuration, log: .none)
        let address = try await server.start(on: SocketListener(limits: limits))
        let codes = EventRecorder<Int>()
        let options = PrimusConnectOptions(strategy: [.disconnect])
        options.timeout = 600
        let url = try #require(URL(string: "http://\(address.host):\(address.port)/primus"))
        let primus = Primus(url: url, options: options)
        primus.on("error") { (error: NSError) in codes.record(error.code) }
        try await eventually { codes.all == [402] }
        await server.stop()
    }
}
