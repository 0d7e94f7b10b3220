import SignalRClient

// The snippets of the article HubGettingStarted.

private func connect() async throws {
    // snippet:hub-start
    let client = HubClient(try HubConfiguration(url: "https://example.org/chat"))
    let connectionID = try await client.start()
    // end
    _ = connectionID
}

private func connectWithBuilder() async throws {
    // snippet:hub-start-builder
    let connection = HubConnectionBuilder()
        .withUrl(url: "https://example.org/chat")
        .withAutomaticReconnect()
        .build()
    try await connection.start()
    // end
}

private func handle(_ client: HubClient) {
    // snippet:hub-handle
    client.on("ReceiveMessage") { (user: String, message: String) in
        print("\(user): \(message)")
    }
    // end
    // snippet:hub-handle-cancel
    let typing = client.on("Typing") { (user: String) in print("\(user) is typing") }
    typing.cancel()
    // end
}

@MainActor private final class ChatModel {
    var lines: [String] = []

    // snippet:hub-main-actor
    func observe(_ client: HubClient) {
        client.on("ReceiveMessage") { [weak self] (user: String, message: String) in
            self?.lines.append("\(user): \(message)")
        }
    }
    // end
}

private func call(_ client: HubClient) async throws {
    // snippet:hub-call
    try await client.send("SendMessage", "anna", "Hello")
    try await client.invoke("JoinRoom", "lobby")
    let members: [String] = try await client.invoke("Members", "lobby")
    // end
    _ = members
}

private func both(_ connection: HubConnection) async throws {
    // snippet:hub-both
    let typed = connection.client
    let members: [String] = try await typed.invoke("Members", "lobby", within: .seconds(10))
    // end
    _ = members
}

private func states(_ client: HubClient) async {
    // snippet:hub-states
    for await state in client.states {
        switch state {
        case .connecting: print("connecting")
        case .connected(let connectionID): print("connected as \(connectionID ?? "a client without an ID")")
        case .reconnecting(let error): print("connection lost: \(error.message)")
        case .stopped(let error?): print("ended: \(error.message)")
        case .stopped(nil): print("not connected")
        }
    }
    // end
}

private func messagePack() throws {
    // snippet:hub-messagepack
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.hubProtocol = .messagePack
    // end
    _ = configuration
}

private func stop(_ client: HubClient) {
    // snippet:hub-stop
    client.stop()
    // end
}
