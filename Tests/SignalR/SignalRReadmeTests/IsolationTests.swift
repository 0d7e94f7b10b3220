import RealtimeTesting
import SignalRClient
import SignalRServer
import TestSupport
import Testing

/// A class that isn't `Sendable`, as an argument and a result.
class Person: Codable {
    var name: String

    init(name: String) {
        self.name = name
    }
}

// Every form of call of the README in code of the main actor and of an actor. `ReadmeTests` contains them in code of no actor. Handlers use the
// state of the actor in which they are written.

@MainActor final class MainActorModel {
    let hub: any ReadmeHub
    var text = ""
    var items: [String] = []
    var states: [String] = []

    init(_ hub: any ReadmeHub) {
        self.hub = hub
    }

    func run() async throws {
        let connection = HubConnectionBuilder()
            .withUrl(url: self.hub.url)
            .withAutomaticReconnect()
            .build()
        await connection.on(self.hub.name("ReceiveMessage")) { (user: String, message: String) in self.text = "\(user) says: \(message)" }
        await connection.on("ClientResult") { (message: String) in
            self.items.append(message)
            return "client response"
        }
        connection.onReconnecting { error in self.states.append(error == nil ? "?" : "reconnecting") }
        connection.onReconnected { self.states.append("reconnected") }
        connection.onClosed { _ in self.states.append("closed") }
        try await connection.start()
        try await connection.invoke(method: self.hub.name("SendMessage"), arguments: "myUser", "Hello")
        try await eventually { self.text == "myUser says: Hello" }
        self.text = ""
        try await connection.send(method: self.hub.name("SendMessage"), arguments: "myUser", "Hello")
        try await eventually { self.text == "myUser says: Hello" }
        let answer: String = try await connection.invoke(
            method: self.hub.name("TriggerClientResult"), arguments: "ClientResult", "question")
        #expect(answer == "client response")
        let stream: any StreamResult<String> = try await connection.stream(method: self.hub.name("StreamMethod"))
        for try await item in stream.stream { self.items.append(item) }
        #expect(self.items == ["question", "a", "b", "c"])
        let (clientStream, continuation) = AsyncStream.makeStream(of: Int.self)
        for i in 0...5 { continuation.yield(i) }
        continuation.finish()
        let sum: Int = try await connection.invoke(self.hub.name("Count"), arguments: 10, clientStream)
        #expect(sum == 25)
        #expect(await connection.state() == .Connected)
        try await self.hub.drop(connection)
        try await eventually { self.states == ["reconnecting", "reconnected"] }
        await connection.stop()
        #expect(self.states == ["reconnecting", "reconnected", "closed"])
    }

    func configure() async throws {
        let connections = [
            HubConnectionBuilder().withUrl(url: self.hub.url, transport: .webSockets).build(),
            HubConnectionBuilder().withUrl(url: self.hub.url, transport: [.webSockets, .serverSentEvents]).build(),
            HubConnectionBuilder().withUrl(url: self.hub.url).withAutomaticReconnect([0, 0, 1]).build(),
            HubConnectionBuilder().withUrl(url: self.hub.url).withAutomaticReconnect(CustomRetryPolicy()).build(),
            HubConnectionBuilder()
                .withUrl(url: self.hub.url)
                .withServerTimeout(serverTimeout: 30)
                .withKeepAliveInterval(keepAliveInterval: 15)
                .withLogLevel(logLevel: .error)
                .withHubProtocol(hubProtocol: .messagePack)
                .build(),
        ]
        for connection in connections {
            try await connection.start()
            let sum: Int = try await connection.invoke(self.hub.name("Count"), arguments: 1, AsyncStream<Int> { $0.finish() })
            #expect(sum == 1)
            await connection.stop()
        }
    }

    func registerSynchronously() {
        let connection = HubConnectionBuilder().withUrl(url: self.hub.url).build()
        connection.on("Other") { (message: String) in self.text = message }
        connection.on("None") { self.text = "" }
        connection.off(method: "Other")
        #expect(connection.state() == .Stopped)
    }
}

actor ActorModel {
    let hub: any ReadmeHub
    var text = ""
    var items: [String] = []
    var states: [String] = []

    init(_ hub: any ReadmeHub) {
        self.hub = hub
    }

    func run() async throws {
        let connection = HubConnectionBuilder()
            .withUrl(url: self.hub.url)
            .withAutomaticReconnect()
            .build()
        await connection.on(self.hub.name("ReceiveMessage")) { (user: String, message: String) in self.text = "\(user) says: \(message)" }
        await connection.on("ClientResult") { (message: String) in
            self.items.append(message)
            return "client response"
        }
        connection.onReconnecting { error in self.states.append(error == nil ? "?" : "reconnecting") }
        connection.onReconnected { self.states.append("reconnected") }
        connection.onClosed { _ in self.states.append("closed") }
        try await connection.start()
        try await connection.invoke(method: self.hub.name("SendMessage"), arguments: "myUser", "Hello")
        while self.text.isEmpty { await Task.yield() }
        #expect(self.text == "myUser says: Hello")
        self.text = ""
        try await connection.send(method: self.hub.name("SendMessage"), arguments: "myUser", "Hello")
        while self.text.isEmpty { await Task.yield() }
        let answer: String = try await connection.invoke(
            method: self.hub.name("TriggerClientResult"), arguments: "ClientResult", "question")
        #expect(answer == "client response")
        let stream: any StreamResult<String> = try await connection.stream(method: self.hub.name("StreamMethod"))
        for try await item in stream.stream { self.items.append(item) }
        #expect(self.items == ["question", "a", "b", "c"])
        let (clientStream, continuation) = AsyncStream.makeStream(of: Int.self)
        for i in 0...5 { continuation.yield(i) }
        continuation.finish()
        let sum: Int = try await connection.invoke(self.hub.name("Count"), arguments: 10, clientStream)
        #expect(sum == 25)
        #expect(await connection.state() == .Connected)
        try await self.hub.drop(connection)
        while self.states.count < 2 { await Task.yield() }
        await connection.stop()
        #expect(self.states == ["reconnecting", "reconnected", "closed"])
    }

    func configure() async throws {
        let connections = [
            HubConnectionBuilder().withUrl(url: self.hub.url, transport: .webSockets).build(),
            HubConnectionBuilder().withUrl(url: self.hub.url, transport: [.webSockets, .serverSentEvents]).build(),
            HubConnectionBuilder().withUrl(url: self.hub.url).withAutomaticReconnect([0, 0, 1]).build(),
            HubConnectionBuilder().withUrl(url: self.hub.url).withAutomaticReconnect(CustomRetryPolicy()).build(),
            HubConnectionBuilder()
                .withUrl(url: self.hub.url)
                .withServerTimeout(serverTimeout: 30)
                .withKeepAliveInterval(keepAliveInterval: 15)
                .withLogLevel(logLevel: .error)
                .withHubProtocol(hubProtocol: .messagePack)
                .build(),
        ]
        for connection in connections {
            try await connection.start()
            let sum: Int = try await connection.invoke(self.hub.name("Count"), arguments: 1, AsyncStream<Int> { $0.finish() })
            #expect(sum == 1)
            await connection.stop()
        }
    }
}

/// A generic type, in which closures have other representations.
struct GenericModel<Message: Codable & Sendable> {
    let connection: HubConnection
    let messages = EventRecorder<Message>()

    func serve(_ hub: Hub, _ item: Message) {
        hub.on("GenericEcho") { (caller, message: Message) in message }
        hub.stream("GenericStream") { (caller, count: Int) in
            AsyncStream<Message> { continuation in
                for _ in 0..<count { continuation.yield(item) }
                continuation.finish()
            }
        }
    }

    func register() async {
        let messages = self.messages
        await self.connection.on("ReceiveMessage") { (user: String, message: Message) in messages.record(message) }
        self.connection.client.on("ReceiveMessage") { (user: String, message: Message) in messages.record(message) }
        self.connection.client.on("ClientResult") { (message: Message) in message }
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct IsolationTests {
    @Test(arguments: ReadmeServer.available)
    func `an application calls and is called on the main actor`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let model = await MainActorModel(hub)
        await model.registerSynchronously()
        try await model.run()
        try await model.configure()
        try await hub.stop()
    }

    @Test(arguments: ReadmeServer.available)
    func `an application calls and is called on an actor`(server: ReadmeServer) async throws {
        let hub = try await server.start()
        let model = ActorModel(hub)
        try await model.run()
        try await model.configure()
        try await hub.stop()
    }

    @Test func `values that aren't Sendable are arguments and results`() async throws {
        let hub = try await EmbeddedHub.start()
        let connection = HubConnectionBuilder().withUrl(url: hub.url).build()
        try await connection.start()
        let person: Person = try await connection.invoke(method: "Rename", arguments: Person(name: "a"), "b")
        #expect(person.name == "b")
        await connection.stop()
        await hub.server.stop()
    }

    @Test func `a generic type registers handlers`() async throws {
        let hub = try await EmbeddedHub.start()
        let model = GenericModel<String>(connection: HubConnectionBuilder().withUrl(url: hub.url).build())
        await model.register()
        model.serve(hub.hub, "item")
        try await model.connection.start()
        #expect(try await model.connection.client.invoke("GenericEcho", "text", as: String.self) == "text")
        for try await item in try model.connection.client.stream("GenericStream", 2, of: String.self) { #expect(item == "item") }
        try await model.connection.invoke("SendMessage", arguments: "user", "hello")
        try await eventually { model.messages.all == ["hello", "hello"] }
        await model.connection.stop()
        await hub.server.stop()
    }
}
