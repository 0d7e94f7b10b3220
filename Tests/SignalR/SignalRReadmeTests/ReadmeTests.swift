import Foundation
import RealtimeTesting
import SignalRClient
import SignalRWire
import TestSupport
import Testing

// The snippets of the README of signalr-client-swift, as an application contains them. This file is compiled in Swift 5 and in Swift 6 mode.
// The snippets run with the server of this package and, if REALTIME_PEERS is set, with ASP.NET Core. They differ from the README in the URL,
// in what they do instead of printing, and in `hub.name("…")` around the names of methods, which are others on the hub of ASP.NET Core.

// Define a customized retry policy
struct CustomRetryPolicy: RetryPolicy {
    func nextRetryInterval(retryContext: RetryContext) -> TimeInterval? {
        return 1  // unlimited retry with 1 second
    }
}

/// A policy that allows two attempts, and records what it may consider.
private struct RecordingRetryPolicy: RetryPolicy {
    let contexts = EventRecorder<RetryContext>()

    func nextRetryInterval(retryContext: RetryContext) -> TimeInterval? {
        self.contexts.record(retryContext)
        return retryContext.retryCount < 2 ? 0.1 : nil
    }
}

/// The changes of a connection's state.
private final class StateRecorder: Sendable {
    private let states = EventRecorder<String>()
    var all: [String] { self.states.all }

    init(_ connection: HubConnection) {
        let states = self.states
        connection.onReconnecting { error in
            // connection is disconnected because of error
            states.record(error == nil ? "reconnecting" : "reconnecting because of an error")
        }

        connection.onReconnected {
            // connection is connected back
            states.record("reconnected")
        }
        connection.onClosed { error in states.record(error == nil ? "closed" : "closed because of an error") }
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ReadmeTests {
    // MARK: Calls

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `connect to a hub, handle its calls, and call it`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let messages = EventRecorder<String>()
        let connection = HubConnectionBuilder()
            .withUrl(url: hub.url)
            .build()

        await connection.on(hub.name("ReceiveMessage")) { (user: String, message: String) in
            messages.record("\(user) says: \(message)")
        }
        try await connection.start()
        #expect(await connection.state() == .Connected)

        try await connection.invoke(method: hub.name("SendMessage"), arguments: "myUser", "Hello")
        try await eventually { messages.all == ["myUser says: Hello"] }

        try await connection.send(method: hub.name("SendMessage"), arguments: "myUser", "Hello")
        try await eventually { messages.all == ["myUser says: Hello", "myUser says: Hello"] }

        // Of a method that fails, only `invoke` throws the error.
        let fail = hub.name("Fail")
        let message = "An unexpected error occurred invoking '\(fail)' on the server. HubException: not today"
        try await connection.send(method: fail, arguments: "not today")
        await #expect(throws: SignalRError.invocationError(message)) {
            try await connection.invoke(method: fail, arguments: "not today")
        }
        #expect(await connection.state() == .Connected)
        await connection.stop()
        #expect(await connection.state() == .Stopped)
        await #expect(throws: SignalRError.self) {
            try await connection.send(method: hub.name("SendMessage"), arguments: "myUser", "Hello")
        }
        #expect(messages.all.count == 2)
        try await hub.stop()
    }

    /// The hub of the README calls `ClientResult` without an argument. Here it passes one, because the handler of the README has a parameter.
    @Test(arguments: ReadmeServer.ofAllOffers)
    func `return a result to the server`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let messages = EventRecorder<String>()
        let connection = HubConnectionBuilder().withUrl(url: hub.url).build()
        await connection.on("ClientResult") { (message: String) in
            messages.record(message)
            return "client response"
        }
        try await connection.start()
        let message: String = try await connection.invoke(
            method: hub.name("TriggerClientResult"), arguments: "ClientResult", "question")
        #expect(message == "client response")
        #expect(messages.all == ["question"])
        await connection.stop()
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `receive a stream`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let connection = HubConnectionBuilder().withUrl(url: hub.url).build()
        try await connection.start()
        var items: [String] = []
        let stream: any StreamResult<String> = try await connection.stream(method: hub.name("StreamMethod"))
        for try await item in stream.stream {
            items.append("Received item: \(item)")
        }
        #expect(items == ["Received item: a", "Received item: b", "Received item: c"])
        await connection.stop()
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `send a stream`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let connection = HubConnectionBuilder().withUrl(url: hub.url).build()
        try await connection.start()
        let (clientStream, continuation) = AsyncStream.makeStream(of: Int.self)
        Task {
            for i in 0...5 { continuation.yield(i) }
            continuation.finish()
        }
        let sum: Int = try await connection.invoke(hub.name("Count"), arguments: 10, clientStream)
        #expect(sum == 25)
        await connection.stop()
        try await hub.stop()
    }

    // MARK: Lost connections

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `reconnect after a loss`(server: ReadmeServer) async throws {
        let hub = try await server.startWithLosses()
        let connection = HubConnectionBuilder()
            .withUrl(url: hub.url)
            .withAutomaticReconnect()
            .build()
        let states = StateRecorder(connection)
        try await connection.start()
        try await hub.drop(connection)
        try await eventually { states.all == ["reconnecting because of an error", "reconnected"] }
        #expect(await connection.state() == .Connected)
        let sum: Int = try await connection.invoke(hub.name("Count"), arguments: 1, AsyncStream<Int> { $0.finish() })
        #expect(sum == 1)
        await connection.stop()
        #expect(states.all == ["reconnecting because of an error", "reconnected", "closed"])
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `by default, a lost connection is closed`(server: ReadmeServer) async throws {
        let hub = try await server.startWithLosses()
        let connection = HubConnectionBuilder().withUrl(url: hub.url).build()
        let states = StateRecorder(connection)
        try await connection.start()
        try await hub.drop(connection)
        try await eventually { states.all == ["closed because of an error"] }
        #expect(await connection.state() == .Stopped)
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.available)
    func `configure the delays of reconnects`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let connections = [
            HubConnectionBuilder()
                .withUrl(url: hub.url)
                .withAutomaticReconnect([0, 0, 1])  // wait 0, 0, and 1 second before trying to reconnect and stop after 3 attempts
                .build(),
            HubConnectionBuilder().withUrl(url: hub.url).withAutomaticReconnect(retryDelays: [0, 0, 1]).build(),
            HubConnectionBuilder()
                .withUrl(url: hub.url)
                .withAutomaticReconnect(CustomRetryPolicy())
                .build(),
            HubConnectionBuilder().withUrl(url: hub.url).withAutomaticReconnect(retryPolicy: CustomRetryPolicy()).build(),
        ]
        for connection in connections {
            let states = StateRecorder(connection)
            try await connection.start()
            try await hub.drop(connection)
            try await eventually { states.all == ["reconnecting because of an error", "reconnected"] }
            await connection.stop()
        }
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.available)
    func `reconnects end after the last delay`(server: ReadmeServer) async throws {
        let hub = try await server.start(isShared: false)
        // Every attempt to connect asks for a token.
        let attempts = EventRecorder<Void>()
        var options = HttpConnectionOptions()
        options.accessTokenFactory = {
            attempts.record(())
            return nil
        }
        let connection = HubConnectionBuilder()
            .withUrl(url: hub.url, options: options)
            .withAutomaticReconnect([0, 0, 1])  // wait 0, 0, and 1 second before trying to reconnect and stop after 3 attempts
            .build()
        let states = StateRecorder(connection)
        try await connection.start()
        #expect(attempts.take().count == 1)
        try await hub.setRejectsNegotiations(true)
        let start = ContinuousClock.now
        try await hub.drop(connection)
        try await eventually { states.all == ["reconnecting because of an error", "closed because of an error"] }
        #expect(ContinuousClock.now - start >= .seconds(1))
        #expect(attempts.all.count == 3)
        #expect(await connection.state() == .Stopped)
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.available)
    func `a retry policy decides how long reconnects continue`(server: ReadmeServer) async throws {
        let hub = try await server.start(isShared: false)
        let attempts = EventRecorder<Void>()
        var options = HttpConnectionOptions()
        options.accessTokenFactory = {
            attempts.record(())
            return nil
        }
        let connection = HubConnectionBuilder()
            .withUrl(url: hub.url, options: options)
            .withAutomaticReconnect(CustomRetryPolicy())
            .build()
        let states = StateRecorder(connection)
        try await connection.start()
        _ = attempts.take()
        try await hub.setRejectsNegotiations(true)
        try await hub.drop(connection)
        try await eventually { attempts.all.count >= 2 }
        #expect(await connection.state() == .Reconnecting)
        #expect(states.all == ["reconnecting because of an error"])
        try await hub.setRejectsNegotiations(false)
        try await eventually { states.all == ["reconnecting because of an error", "reconnected"] }
        #expect(await connection.state() == .Connected)
        await connection.stop()
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.available)
    func `a retry policy receives the number of attempts, the time and the error`(server: ReadmeServer) async throws {
        let hub = try await server.start(isShared: false)
        let policy = RecordingRetryPolicy()
        let connection = HubConnectionBuilder().withUrl(url: hub.url).withAutomaticReconnect(policy).build()
        let states = StateRecorder(connection)
        try await connection.start()
        try await hub.setRejectsNegotiations(true)
        try await hub.drop(connection)
        try await eventually { states.all == ["reconnecting because of an error", "closed because of an error"] }
        let contexts = policy.contexts.all
        try #require(contexts.map(\.retryCount) == [0, 1, 2])
        #expect(contexts[0].elapsed == 0 && contexts[1].elapsed >= 0.1 && contexts[2].elapsed >= contexts[1].elapsed + 0.1)
        // First the loss, then the failures of the attempts.
        let reasons = contexts.map { context in context.retryReason.map { "\($0)" } ?? "" }
        #expect(reasons[0] != "" && !reasons[0].contains("status 503"), "\(reasons)")
        #expect(reasons[1...].allSatisfy { $0.contains("status 503") }, "\(reasons)")
        try await hub.stop()
    }

    // MARK: Options

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `configure the transports`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let anyTransport = HubConnectionBuilder()
            .withUrl(url: hub.url)
            .build()
        try await Self.expect(server.transport ?? .webSockets, of: anyTransport, on: hub)

        let webSockets = HubConnectionBuilder()
            .withUrl(url: hub.url, transport: .webSockets)  // use websocket only
            .build()
        try await Self.expect(server.transport == nil ? .webSockets : nil, of: webSockets, on: hub)

        let socketsOrEvents = HubConnectionBuilder()
            .withUrl(url: hub.url, transport: [.webSockets, .serverSentEvents])  // use websockets and server sent events
            .build()
        try await Self.expect(server.transport == .longPolling ? nil : server.transport ?? .webSockets, of: socketsOrEvents, on: hub)

        // Server-Sent Events carry text.
        let messagePack = HubConnectionBuilder()
            .withUrl(url: hub.url)
            .withHubProtocol(hubProtocol: .messagePack)
            .build()
        try await Self.expect(server.transport == .serverSentEvents ? nil : server.transport ?? .webSockets, of: messagePack, on: hub)
        try await hub.stop()
    }

    /// Starts a connection, and checks that it uses a transport, or that it can't start because the server doesn't offer any that it may use.
    private static func expect(_ transport: HubTransport?, of connection: HubConnection, on hub: any ReadmeHub) async throws {
        guard let transport else {
            await #expect {
                try await connection.start()
            } throws: { error in
                guard case SignalRError.negotiationError(let text) = error else { return false }
                return text.contains("offers only")
            }
            #expect(await connection.state() == .Stopped)
            return
        }
        try await connection.start()
        #expect(connection.client.transport == transport)
        let sum: Int = try await connection.invoke(method: hub.name("Count"), arguments: 1, AsyncStream<Int> { $0.finish() })
        #expect(sum == 1)
        await connection.stop()
    }

    @Test(arguments: ReadmeServer.ofAllOffers)
    func `configure timeouts and the protocol`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        var options = HttpConnectionOptions()
        options.headers = ["X-Client": "readme"]
        options.accessTokenFactory = { "token" }
        let connection = HubConnectionBuilder()
            .withUrl(url: hub.url, options: options)
            .withKeepAliveInterval(keepAliveInterval: 15)
            .withServerTimeout(serverTimeout: 30)
            .withLogLevel(logLevel: .error)
            .withHubProtocol(hubProtocol: .json)
            .build()
        try await Self.expect(server.transport ?? .webSockets, of: connection, on: hub)
        try await hub.stop()
    }

    // The servers send a keep-alive message every 15 seconds.
    @Test(arguments: ReadmeServer.available)
    func `a server that sends nothing is disconnected after the server timeout`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let errors = EventRecorder<SignalRError?>()
        let connection = HubConnectionBuilder()
            .withUrl(url: hub.url)
            .withServerTimeout(serverTimeout: 1)
            .build()
        connection.onClosed { error in errors.record(error as? SignalRError) }
        try await connection.start()
        try await eventually { errors.all == [.serverTimeout(1)] }
        #expect(await connection.state() == .Stopped)
        try await hub.stop()
    }
}
