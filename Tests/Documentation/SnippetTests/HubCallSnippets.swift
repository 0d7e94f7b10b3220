import Foundation
import SignalRClient

// The snippets of the articles CallsAndStreams and ClientResults.

private struct Purchase: Codable, Sendable {
    var symbol: String
    var count: Int
}

private struct Receipt: Codable, Sendable {
    var id: UUID
    var bought: Date
}

private func invoke(_ client: HubClient) async throws {
    // snippet:calls-invoke
    let receipt = try await client.invoke("Buy", Purchase(symbol: "ACME", count: 3), as: Receipt.self)
    print(receipt.id, receipt.bought)
    // end
    // snippet:calls-optional
    let last: Receipt? = try await client.invoke("LastReceipt")
    // end
    // snippet:calls-dynamic
    let settings: JSONValue = try await client.invoke("Settings", ["theme": "dark", "size": 12] as JSONValue)
    // end
    _ = (last, settings)
}

private func localTime(_ client: HubClient) async throws {
    // snippet:calls-local-time
    struct LocalTime: Encodable {
        var local: Date
        var offsetInMinutes: Int

        func encode(to encoder: any Encoder) throws {
            var values = encoder.unkeyedContainer()
            try values.encode(self.local)
            try values.encode(self.offsetInMinutes)
        }
    }

    let date = Date()
    try await client.invoke("Remind", LocalTime(local: date + 2 * 3600, offsetInMinutes: 120))
    // end
}

private func errors(_ client: HubClient) async {
    // snippet:calls-errors
    do {
        try await client.invoke("Buy", Purchase(symbol: "ACME", count: 3))
    } catch {
        switch error.code {
        case .invocationFailed: print("The server refused: \(error.serverMessage ?? "")")
        case .notConnected, .connectionLost, .serverTimeout: print("Try again when the client is connected.")
        default: print(error.message)
        }
    }
    // end
}

private func limits(_ client: HubClient) async throws {
    // snippet:calls-limit
    try await client.invoke("Rebuild", within: .seconds(30))
    // end
}

private func defaultLimit(_ configuration: inout HubConfiguration) {
    // snippet:calls-default-limit
    configuration.callTimeLimit = .seconds(10)
    // end
}

private func down(_ client: HubClient) async throws {
    // snippet:calls-down
    let prices = try client.stream("Prices", "ACME", of: Double.self)
    for try await price in prices {
        print(price)
        if price > 100 { break }
    }
    // end
}

private func up(_ client: HubClient) async throws {
    // snippet:calls-up
    let (chunks, continuation) = AsyncStream.makeStream(of: Data.self)
    async let size: Int = client.invoke("Upload", "notes.txt", HubUpload(chunks))
    continuation.yield(Data("first\n".utf8))
    continuation.yield(Data("second\n".utf8))
    continuation.finish()
    try await print(size)
    // end
}

// snippet:calls-typed-hub
extension HubClient {
    /// Sends a message to the members of a room, and returns when the server has accepted it.
    func sendMessage(_ text: String, to room: String) async throws(HubError) {
        try await self.invoke("SendMessage", room, text, within: .seconds(10))
    }

    /// The members of a room.
    func members(of room: String) async throws(HubError) -> [String] {
        try await self.invoke("Members", room)
    }

    /// The messages of a room, from the oldest that the server keeps.
    func history(of room: String) throws(HubError) -> HubStreamResult<String> {
        try self.stream("History", room)
    }

    /// Calls a closure for each new message.
    @discardableResult
    func onMessage(_ handler: @escaping @Sendable (_ room: String, _ text: String) async -> Void) -> HubHandlerToken {
        self.on("ReceiveMessage") { (room: String, text: String) in await handler(room, text) }
    }
}
// end

private func results(_ client: HubClient, _ connection: HubConnection) async {
    // snippet:results-typed
    client.on("GetLocation") { (precision: Int) in
        "52.5, 13.4"
    }
    // end
    // snippet:results-throw
    client.on("ReadFile") { (name: String) async throws -> String in
        guard name == "notes.txt" else { throw HubError(.handlerFailed, "There is no such file.") }
        return "buy milk"
    }
    // end
    // snippet:results-connection
    await connection.on("ClientResult") { (message: String) in
        return "client response"
    }
    // end
}
