import Foundation
import RealtimeCore
import SignalRClient

// The code in the tables of the article MigratingFromSignalRClientSwift. A test checks that each piece is in this file.

private struct Policy: RetryPolicy {
    func nextRetryInterval(retryContext: RetryContext) -> TimeInterval? { 1 }
}

/// The forms of the READMEs of signalr-client-swift, which that package doesn't compile, or not in Swift 6 mode.
@MainActor private func readmeForms(_ connection: HubConnection, _ numbers: AsyncStream<Int>) async throws {
    _ = HubConnectionBuilder().withUrl(url: "https://example.org/chat").withAutomaticReconnect([0, 0, 1])
    _ = HubConnectionBuilder().withUrl(url: "https://example.org/chat").withAutomaticReconnect(Policy())
    _ = HubConnectionBuilder().withUrl(url: "https://example.org/chat").withStatefulReconnect()
    connection.onReconnecting { error in print(error as Any) }
    connection.onReconnected { print("connected") }
    try await connection.send("UploadStream", arguments: numbers)
    await connection.on("Receive") { (text: String) in print(text) }
    print(await connection.state())
    let stream: any StreamResult<String> = try await connection.stream(method: "Messages")
    _ = stream
}

/// The typed API.
private func typedForms(
    _ session: UserSession, _ numbers: AsyncStream<Int>, _ transports: Transports, _ http: any HTTPTransport
) async throws {
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.hubProtocol = .messagePack
    configuration.keepAliveInterval = .seconds(15)
    configuration.serverTimeout = .seconds(30)
    configuration.retry = .standard
    configuration.retry = .delays([.zero, .seconds(5)])
    configuration.statefulReconnect = HubStatefulReconnect(bufferBytes: 100_000)
    configuration.allowedTransports = .longPolling
    configuration.retry = .custom { context in context.retryCount < 5 ? .seconds(1) : nil }
    configuration.refreshesAuthentication = true
    configuration.log.minimumLevel = .debug
    configuration.log.minimumLevel = .trace
    configuration.log = LogSink(minimumLevel: .info) { print($2) }
    configuration.accessToken = { try await session.token() }
    configuration.headers["X-Api-Key"] = "key"
    configuration.allowedTransports = .webSockets
    configuration.skipsNegotiation = true
    configuration.connectTimeout = .seconds(30)
    configuration.transports = transports
    configuration.transports.http = http
    let client = HubClient(configuration)
    try await client.start()
    try await client.refreshAuthentication()
    client.stop()
    _ = client.state
    for await update in client.updates() { print(update) }
    try await client.send("Send", "anna", 1)
    try await client.invoke("Join", "lobby")
    let sum: Int = try await client.invoke("Add", 1, 2)
    let prices = try client.stream("Prices", "ACME", of: Double.self)
    for try await price in prices { print(price) }
    prices.cancel()
    try await client.send("Upload", HubUpload(numbers))
    client.on("Receive") { (text: String) in print(text) }
    client.off("Receive")
    print(sum)
}

/// Uses the API that signalr-client-swift doesn't have.
private func newForms(_ connection: HubConnection, _ options: inout HttpConnectionOptions, _ transports: Transports) async throws {
    print(connection.connectionId ?? "")
    connection.checkConnection()
    _ = HubConnectionBuilder().withAuthenticationRefresh()
    _ = HubConnectionBuilder().withTransports(transports)
    try await connection.refreshAuthentication()
    print(connection.client.state)
    let token = await connection.on("Receive") { (text: String) in print(text) }
    token.cancel()
    _ = HubConnectionBuilder().withAutomaticReconnect(Backoff())
    _ = HubConnectionBuilder().withHubProtocol(hubProtocol: .json(JSONEncoder(), JSONDecoder()))
    await connection.on("Divide") { (a: Int, b: Int) async throws -> Int in
        if b == 0 { throw HubError(.handlerFailed, "Division by zero.") }
        return a / b
    }
}
