import RealtimeCore
import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

/// Connections in unusual situations: of clients that were used before, with results that can't be sent, and with custom HTTP clients.
@Suite(.timeLimit(.minutes(10))) struct HubConnectionRobustnessTests {
    @Test func `stop returns although the client of the connection was started and stopped before`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let client = signalR.client("/chat")
        try await client.start()
        client.stop()
        let connection = HubConnection(client)
        let closed = EventRecorder<Int>()
        connection.onClosed { _ in closed.record(1) }
        await connection.stop()
        expect(closed.all.isEmpty)
        // It waits for handlers as before.
        try await connection.start()
        await connection.stop()
        expectEqual(closed.all, [1])
    }

    @Test func `a handler of a loss that waits doesn't lose the reconnect behind many errors`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").withAutomaticReconnect([0]).build()
        let gate = Waiter<Void>()
        let calls = EventRecorder<String>()
        connection.onReconnecting { _ in
            calls.record("reconnecting")
            await gate.value()
        }
        connection.onReconnected { calls.record("reconnected") }
        await connection.on("Count") { (_: Int) in calls.record("counted") }
        try await connection.start()
        signalR.network.cut()
        try await eventually { calls.all == ["reconnecting"] }
        signalR.clock.advance(by: .milliseconds(1))
        try await eventually { connection.connectionId != nil }
        let failures = 1100
        for _ in 1...failures { try await hub.clients.all.send("Count", "one") }
        try await eventually { connection.client.counters.decodingFailures == failures }
        gate.fulfill(())?.resume()
        try await eventually { calls.all == ["reconnecting", "reconnected"] }
        await connection.stop()
    }

    @Test func `a result that isn't Encodable is only an error if the server waits for it`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        let connection = signalR.connectionBuilder("/hub").build()
        let calls = EventRecorder<Int>()
        let errors = EventRecorder<HubError>()
        let token = connection.client.onUpdate(on: HubCallbackExecutor { $0() }) { if case .error(let error) = $0 { errors.record(error) } }
        await connection.on("Start") { (number: Int) -> Task<Void, Never> in
            calls.record(number)
            return Task {}
        }
        await connection.on("End") { calls.record(0) }
        try await connection.start()
        try await hub.clients.all.send("Start", 1)
        try await hub.clients.all.send("End")
        try await eventually { calls.all.count == 2 }
        expect(calls.all == [1, 0] && errors.all.isEmpty)
        let client = hub.clients.client(try #require(connection.connectionId))
        await #expect {
            let _: Int = try await client.invoke("Start", 2)
        } throws: { error in
            guard let error = error as? HubInvocationError else { return false }
            return error.code == .failed && error.message.contains("of the handler can't be encoded") && error.message.contains("Task")
        }
        expectEqual(calls.all, [1, 0, 2])
        expect(errors.all.count == 1 && errors.all.first?.code == .handlerFailed)
        expectEqual(connection.client.counters.decodingFailures, 0)
        withExtendedLifetime(token) {}
    }

    @Test func `automatic reconnects are made after 0, 2, 10 and 30 seconds`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").withAutomaticReconnect().build()
        let closed = EventRecorder<Int>()
        connection.onClosed { _ in closed.record(1) }
        let delays = EventRecorder<Duration>()
        let token = connection.client.onUpdate(on: HubCallbackExecutor { $0() }) {
            if case .connectingIn(let delay) = $0 { delays.record(delay) }
        }
        try await connection.start()
        signalR.server.faults.negotiationStatus = 503
        signalR.server.drop(try #require(connection.connectionId))
        let expected: [Duration] = [.zero, .seconds(2), .seconds(10), .seconds(30)]
        for count in 1...4 {
            try await eventually { delays.all.count == count || closed.all.count == 1 }
            expectEqual(delays.all, Array(expected.prefix(count)))
            // A delay of zero is the shortest delay.
            signalR.clock.advance(by: max(.nanoseconds(1), expected[count - 1]))
        }
        try await eventually { closed.all.count == 1 }
        expectEqual(delays.all, expected)
        await expectEqual(connection.state(), .Stopped)
        withExtendedLifetime(token) {}
    }

    /// Sends requests over the network of a test, and adds cookies to the responses.
    private struct CookieClient: HttpClient {
        let http: any HTTPTransport

        func send(request: HttpRequest) async throws -> (StringOrData, HttpResponse) {
            var fields = HTTPHeaders()
            for (name, value) in request.headers { fields[name] = value }
            let response = try await self.http.send(HTTPRequest(request.method.rawValue, try Endpoint(request.url), headers: fields))
            var headers = response.head.headers
            headers.add("Set-Cookie", "affinity=a1; Path=/; HttpOnly")
            headers.add("Set-Cookie", "other=2; Path=/")
            let body = String(decoding: response.body, as: UTF8.self)
            return (.string(body), HttpResponse(statusCode: response.head.status, headers: headers))
        }
    }

    @Test func `cookies of a negotiation by the application's client are sent with the WebSocket`() async throws {
        let requests = EventRecorder<SignalRAuthenticationRequest>()
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            requests.record(request)
            return .accept(userID: nil)
        }
        let signalR = try await InMemorySignalR(hooks: hooks)
        _ = signalR.server.hub("/hub")
        var options = HttpConnectionOptions()
        options.httpClient = CookieClient(http: signalR.network.http)
        let url = signalR.url("/hub")
        let connection = signalR.connectionBuilder("/hub").withUrl(url: url, options: options).build()
        try await connection.start()
        expectEqual(requests.all.map(\.isNegotiation), [true, false])
        expectNil(requests.all.first?.request.headers["Cookie"])
        expectEqual(requests.all.last?.request.headers["Cookie"], "affinity=a1; other=2")
        await connection.stop()
    }
}
