// snippet:readme-hub
import SignalRHubs

func chat() async throws {
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.retry = .standard
    let client = HubClient(configuration)
    client.on("ReceiveMessage") { (user: String, message: String) in
        print("\(user): \(message)")
    }
    try await client.start()
    try await client.invoke("SendMessage", "anna", "Hello")
    for try await price in try client.stream("Prices", "ACME", of: Double.self) {
        print(price)
    }
}
// end
