import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import SignalRServer

// The snippets of SignalRServer's documentation.

private func start(network: InMemoryNetwork) async throws {
    // snippet:signalr-server
    let server = SignalRServer(network: network)
    let chat = server.hub("/chat")
    chat.on("Send") { (caller, user: String, text: String) in
        try await caller.clients.all.send("Receive", user, text)
    }
    let address = try await server.start(on: network.listener())
    // end
    _ = address
}

private func methods(server: SignalRServer) {
    // snippet:hub
    let chat = server.hub("/chat")
    chat.on("Send") { (caller, user: String, text: String) in
        try await caller.clients.all.send("Receive", user, text)
    }
    chat.on("Add") { (caller, a: Int, b: Int) in a + b }
    chat.stream("Count") { (caller, count: Int) in
        AsyncStream { continuation in
            for number in 0..<max(0, min(count, 1000)) { continuation.yield(number) }
            continuation.finish()
        }
    }
    // end
}

private func streams(hub: Hub) {
    // snippet:hub-stream
    hub.on("Sum") { (caller, numbers: HubStream<Int>) in
        try await numbers.reduce(0, +)
    }
    // end
}

private func router(server: SignalRServer, other: any ListenerHandler, listener: any Listener) async throws {
    // snippet:signalr-router
    let router = ListenerRouter([.path("/chat", server.listenerHandler), .path("/app", other)])
    let address = try await listener.start(router)
    // end
    _ = address
}

private func startOnAPort() async throws {
    // snippet:hub-server-start
    let server = SignalRServer()
    let chat = server.hub("/chat")
    chat.on("Send") { (caller, user: String, text: String) in
        try await caller.clients.others.send("Receive", user, text)
        return text.count
    }
    let address = try await server.start(on: SocketListener(port: 5000))
    print("Clients connect to http://\(address.host):\(address.port)/chat")
    // end
}

private struct Person: Codable, Sendable {
    var name: String
    var age: Int
}

@MainActor private final class Model {
    var names: [String] = []
}

private func moreMethods(chat: Hub, model: Model) {
    // snippet:hub-methods
    chat.on("Add") { (caller, a: Int, b: Int) in a + b }
    chat.on("Rename") { (caller, person: Person, name: String?) in
        guard let name else { throw HubException("A name is required.") }
        return Person(name: name, age: person.age)
    }
    // end
    // snippet:hub-main-actor
    chat.on("Rename") { @MainActor [model] (caller, name: String) in
        model.names.append(name)
        return model.names.count
    }
    // end
    // snippet:hub-stream-down
    chat.stream("Count") { (caller, count: Int) in
        AsyncThrowingStream { continuation in
            for number in 0..<max(0, min(count, 1000)) { continuation.yield(number) }
            continuation.finish(throwing: count > 100 ? HubException("Too many numbers.") : nil)
        }
    }
    // end
    // snippet:hub-stream-up
    chat.on("Upload") { (caller, name: String, parts: HubStream<[Int]>) in
        var size = 0
        for try await part in parts { size += part.count }
        return "\(name) has \(size) numbers."
    }
    chat.stream("Double") { (caller, numbers: HubStream<Int>) in numbers.map { 2 * $0 } }
    // end
    // snippet:hub-client-result
    chat.on("Confirm") { (caller, question: String) in
        let isConfirmed: Bool = try await caller.clients.caller.invoke("Ask", question, timeLimit: .seconds(10))
        return isConfirmed ? "Yes" : "No"
    }
    // end
}

private func clients(chat: Hub) async throws {
    // snippet:hub-clients
    chat.on("Send") { (caller, text: String) in
        try await caller.clients.others.send("Receive", caller.userID, text)
        try await caller.clients.caller.send("Sent")
    }
    try await chat.clients.all.send("Receive", "server", "Welcome!")
    try await chat.clients.user("anna").send("Receive", "server", "Hello, Anna.")
    // end
    // snippet:hub-groups
    chat.onConnected { caller in
        caller.groups.add(caller.connectionID, to: "lobby")
        try await caller.clients.othersInGroup("lobby").send("Joined", caller.connectionID)
    }
    chat.onDisconnected { caller, error in
        try? await caller.clients.group("lobby").send("Left", caller.connectionID)
    }
    // end
}

private struct User: Sendable {
    var id: String
    var isAdministrator: Bool
}

private struct Users: Sendable {
    func user(withToken token: String) async -> User? { nil }
    func isBlocked(_ id: String?) async -> Bool { false }
}

private func authentication(network: InMemoryNetwork, users: Users) {
    // snippet:hub-authentication
    var hooks = SignalRServerHooks()
    hooks.authenticate = { request in
        guard let token = request.token else { return .reject(status: 401) }
        guard let user = await users.user(withToken: token) else { return .reject(status: 401) }
        return request.hub == "/admin" && !user.isAdministrator ? .reject(status: 403) : .accept(userID: user.id)
    }
    let server = SignalRServer(network: network, hooks: hooks)
    // end
    _ = server
    // snippet:hub-server-refresh
    var configuration = SignalRServerConfiguration()
    configuration.allowsAuthenticationRefresh = true
    hooks.authenticate = { request in
        guard let token = request.token, let user = await users.user(withToken: token) else { return .reject(status: 401) }
        return .accept(userID: user.id, lifetime: .seconds(3600))
    }
    hooks.approveRefresh = { refresh in
        await !users.isBlocked(refresh.userID)
    }
    // end
    _ = (configuration, hooks)
}

private func testing() async throws {
    // snippet:hub-testing
    let clock = ManualClock()
    let network = InMemoryNetwork(clock: clock)
    let server = SignalRServer(network: network)
    let address = try await server.start(on: network.listener())
    // end
    _ = address
}

private func faults(server: SignalRServer, chat: Hub) {
    // snippet:hub-faults
    server.faults.delay = .milliseconds(200)
    server.faults.dropRate = 0.1
    server.faults.unauthorizedRequests = 1
    server.faults.expiredTokens = ["an old token"]
    server.faults.negotiationError = "The server is being updated."
    server.faults.refusedTransports = [.webSockets, .serverSentEvents]
    server.faults.lostAnswers = 1
    server.faults = SignalRServerFaults()
    // end
    // snippet:hub-connection-faults
    if let connectionID = chat.connectionIDs.first {
        server.silence(connectionID)
        server.silence(connectionID, false)
        server.send("garbage\u{1E}", to: connectionID)
        server.close(connectionID, error: "The server is restarting.", allowReconnect: true)
        server.drop(connectionID)
    }
    // end
}

private func events(server: SignalRServer) async {
    // snippet:hub-events
    for await event in server.events {
        if case .received(let connectionID, let message) = event { print(connectionID, message) }
    }
    // end
}
