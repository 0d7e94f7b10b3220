import SignalRClient
import TestSupport

// snippet:hubs-in-memory
import SignalRTesting
import Testing

@Test func `a message reaches everyone`() async throws {
    let signalR = try await InMemorySignalR()
    signalR.server.hub("/chat").on("Send") { (caller, text: String) in
        try await caller.clients.all.send("Receive", text)
    }
    let client = signalR.client("/chat")
    let received = EventRecorder<String>()
    client.on("Receive") { (text: String) in received.record(text) }
    try await client.start()
    try await client.invoke("Send", "hello")
    try await eventually { received.all == ["hello"] }
}
// end

@Test private func `the snippets of the article on tests of hubs are correct`() async throws {
    try await reconnect()
    try await silence()
    try await rejectToken()
    try await refuseTransport()
    try await failNegotiation()
    try await invalidMessage()
    try await builder()
}

private func reconnect() async throws {
    // snippet:hubs-reconnect
    let signalR = try await InMemorySignalR()
    signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
    let client = signalR.client("/chat") { $0.retry = .delays([.seconds(2)]) }
    let connectionID = try #require(try await client.start())

    signalR.server.drop(connectionID)
    guard case .reconnecting = client.state else {
        Issue.record("The state is \(client.state).")
        return
    }
    await #expect(throws: HubError.self) { try await client.invoke("Add", 1, 2, as: Int.self) }

    signalR.clock.advance(by: .seconds(2))
    try await eventually { client.connectionID != nil }
    #expect(try await client.invoke("Add", 1, 2, as: Int.self) == 3)
    // end
}

private func silence() async throws {
    let signalR = try await InMemorySignalR()
    _ = signalR.server.hub("/chat")
    let client = signalR.client("/chat")
    try await client.start()
    // snippet:hubs-silence
    signalR.server.faults.isSilent = true
    signalR.clock.advance(by: .seconds(30))
    guard case .stopped(let error?) = client.state else {
        Issue.record("The state is \(client.state).")
        return
    }
    #expect(error.code == .serverTimeout)
    // end
}

private func rejectToken() async throws {
    let signalR = try await InMemorySignalR()
    _ = signalR.server.hub("/chat")
    // snippet:hubs-token
    let tokens = EventRecorder<String>()
    let client = signalR.client("/chat") {
        $0.accessToken = {
            tokens.record("token")
            return "token"
        }
    }
    signalR.server.faults.unauthorizedRequests = 1
    try await client.start()
    #expect(tokens.all.count == 2)
    // end
}

private func refuseTransport() async throws {
    let signalR = try await InMemorySignalR()
    _ = signalR.server.hub("/chat")
    let client = signalR.client("/chat")
    // snippet:hubs-fallback
    signalR.server.faults.refusedTransports = .webSockets
    try await client.start()
    #expect(client.transport == .serverSentEvents)
    // end
}

private func failNegotiation() async throws {
    let signalR = try await InMemorySignalR()
    _ = signalR.server.hub("/chat")
    let client = signalR.client("/chat")
    // snippet:hubs-negotiation
    signalR.server.faults.negotiationError = "The server is full."
    let error = await #expect(throws: HubError.self) { try await client.start() }
    #expect(error?.code == .negotiationFailed)
    #expect(error?.serverMessage == "The server is full.")
    // end
}

private func invalidMessage() async throws {
    let signalR = try await InMemorySignalR()
    signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
    let client = signalR.client("/chat")
    let connectionID = try #require(try await client.start())
    // snippet:hubs-invalid
    let updates = client.updates()
    signalR.server.send("{not a message}\u{1E}", to: connectionID)
    guard case .error(let error)? = await updates.pending().first else {
        Issue.record("There should be an error.")
        return
    }
    #expect(error.code == .invalidMessage)
    #expect(try await client.invoke("Add", 1, 2, as: Int.self) == 3)
    // end
}

private func builder() async throws {
    let signalR = try await InMemorySignalR()
    signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
    // snippet:hubs-builder
    let connection = HubConnectionBuilder()
        .withUrl(url: signalR.url("/chat"))
        .withTransports(signalR.network.transports())
        .withAutomaticReconnect([0, 2])
        .build()
    try await connection.start()
    let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
    #expect(sum == 3)
    // end
}

private func clientResult() async throws {
    // snippet:hubs-authenticate
    var hooks = SignalRServerHooks()
    hooks.authenticate = { request in
        request.token == "token" ? .accept(userID: "anna") : .reject(status: 401)
    }
    let signalR = try await InMemorySignalR(hooks: hooks)
    // end
    _ = signalR
}
