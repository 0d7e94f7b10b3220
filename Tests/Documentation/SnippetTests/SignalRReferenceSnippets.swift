import SignalRClient
import SignalRTesting

// The snippets in the documentation comments of SignalRClient and SignalRTesting.

/// A report about an uploaded file.
struct HubReport: Codable, Sendable {
    let lines: Int
}

/// A dialog that asks the user.
@MainActor final class HubDialog {
    /// Shows a question, and returns whether the user agrees.
    func confirm(_ question: String) async -> Bool { true }
}

private func client() async throws {
    // snippet:hub-client
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.retry = .standard
    let client = HubClient(configuration)
    client.on("ReceiveMessage") { (user: String, message: String) in
        print("\(user): \(message)")
    }
    try await client.start()
    try await client.invoke("SendMessage", "anna", "Hello")
    // end
}

private func configuration(_ session: UserSession) throws {
    // snippet:hub-configuration
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.accessToken = { try await session.token() }
    configuration.retry = .standard
    let client = HubClient(configuration)
    // end
    _ = client
}

private func handlers(_ client: HubClient, _ dialog: HubDialog) async throws {
    // snippet:hub-on
    client.on("ReceiveMessage") { (user: String, message: String) in
        print("\(user): \(message)")
    }
    // end
    // snippet:hub-on-result
    client.on("Confirm") { (question: String) in
        await dialog.confirm(question)
    }
    // end
    // snippet:hub-invocations
    for await call in client.invocations(of: "ReceiveMessage") {
        let (user, message) = try call.decode(String.self, String.self)
        print("\(user): \(message)")
    }
    // end
}

private func calls(_ client: HubClient, _ lines: AsyncStream<String>, _ numbers: AsyncStream<Int>) async throws {
    typealias Report = HubReport
    do {
        // snippet:hub-invoke
        let sum: Int = try await client.invoke("Add", 1, 2)
        let report = try await client.invoke("Upload", "log.txt", HubUpload(lines), as: Report.self, within: .seconds(60))
        // end
        print(sum, report)
    }
    // snippet:hub-stream-result
    for try await price in try client.stream("Prices", "ACME", of: Price.self) {
        print(price)
    }
    // end
    // snippet:hub-upload
    let total: Int = try await client.invoke("Sum", HubUpload(numbers))
    // end
    _ = total
}

private func connection() async throws {
    // snippet:hub-connection
    let connection = HubConnectionBuilder()
        .withUrl(url: "https://example.org/chat")
        .build()
    await connection.on("ReceiveMessage") { (user: String, message: String) in
        print("\(user) says: \(message)")
    }
    try await connection.start()
    try await connection.invoke(method: "SendMessage", arguments: "myUser", "Hello")
    // end
}

private func builder() {
    // snippet:hub-builder
    let connection = HubConnectionBuilder()
        .withUrl(url: "https://example.org/chat")
        .withAutomaticReconnect()
        .build()
    // end
    _ = connection
}

private func configuration(_ builder: HubConnectionBuilder) {
    let changed =
        // snippet:hub-builder-configuration
        builder.withConfiguration {
            $0.retriesFirstStart = true
            $0.messageLimit = 1 << 20
        }
    // end
    _ = changed
}

private func changes(_ client: HubClient) throws {
    // snippet:hub-update
    try client.update { $0.retry = .standard }
    // end
}

private func inMemory() async throws {
    // snippet:in-memory-signalr
    let signalR = try await InMemorySignalR()
    signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
    let client = signalR.client("/chat")
    try await client.start()
    let sum: Int = try await client.invoke("Add", 1, 2)
    // end
    _ = sum
}
