// snippet:primus-test
import PrimusTesting
import Testing

@Test func `a reading arrives`() async throws {
    let primus = try await InMemoryPrimus()
    let client = primus.client()
    let messages = client.messages
    client.open()
    try await client.opened(within: .seconds(5))
    try primus.server.write(["celsius": 21.5])
    let message = await messages.first { _ in true }
    #expect(try message?.value["celsius"]?.double == 21.5)
}
// end

@Test private func `the snippets of the article on tests of Primus are correct`() async throws {
    try await reconnect()
    try await silence()
    try await refuse()
    try await invalidMessage()
    try await kinds()
    try await staysWithPolling()
}

private func kinds() async throws {
    // snippet:primus-test-kinds
    var configuration = PrimusServerConfiguration()
    configuration.transformer = .engineIO
    let primus = try await InMemoryPrimus(configuration: configuration)
    let client = primus.client { $0.allowedTransports = .polling }
    client.open()
    try await client.opened()
    #expect(client.transport == .polling)
    // end
    client.end()
}

private func staysWithPolling() async throws {
    var configuration = PrimusServerConfiguration()
    configuration.transformer = .engineIO
    let primus = try await InMemoryPrimus(configuration: configuration)
    // snippet:primus-test-upgrade-fault
    primus.server.faults.refusesUpgrades = true
    let client = primus.client { $0.startsWithPolling = true }
    client.open()
    try await client.opened()
    #expect(try await client.id() == primus.server.sparks.first?.id)
    #expect(client.transport == .polling)
    // end
    client.end()
}

private func reconnect() async throws {
    // snippet:primus-test-reconnect
    let primus = try await InMemoryPrimus()
    let client = primus.client { $0.retry = .delays([.seconds(2)]) }
    client.open()
    try await client.opened()

    let errors = client.errors
    primus.network.cut()
    guard case .reconnecting = client.state else {
        Issue.record("The state is \(client.state).")
        return
    }
    #expect(await errors.pending().first?.code == .connectionLost)
    primus.clock.advance(by: .seconds(2))
    try await client.opened()
    // end
}

private func silence() async throws {
    // snippet:primus-test-silence
    let primus = try await InMemoryPrimus()
    let client = primus.client { $0.retry = .none }
    client.open()
    try await client.opened()

    primus.server.faults.isSilent = true
    primus.clock.advance(by: .seconds(45))
    guard case .closed(let error?) = client.state else {
        Issue.record("The state is \(client.state).")
        return
    }
    #expect(error.code == .serverSilent)
    // end
}

private func refuse() async throws {
    // snippet:primus-test-refuse
    var configuration = PrimusServerConfiguration()
    configuration.authorize = { _ in .reject("Unknown token.", status: 401) }
    let primus = try await InMemoryPrimus(configuration: configuration)
    let client = primus.client()
    client.open()
    let error = await #expect(throws: PrimusError.self) { try await client.opened() }
    #expect(error?.code == .unauthorized)
    #expect(error?.serverMessage == "Unknown token.")
    // end
}

private func invalidMessage() async throws {
    let primus = try await InMemoryPrimus()
    let client = primus.client()
    client.open()
    try await client.opened()
    // snippet:primus-test-invalid
    let id = try await client.id()
    let values = client.messages(as: Int.self)
    primus.server.sendRaw(.text("{not a message"), to: id)
    try primus.server.write(3)
    #expect(await values.first { _ in true } == 3)
    #expect(client.counters.decodingFailures == 1)
    // end
}
