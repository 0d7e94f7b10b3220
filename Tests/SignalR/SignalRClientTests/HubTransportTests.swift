import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import SignalRClient
import SignalRHubs
import SignalRServer
import SignalRTesting
import SignalRWire
import TestSupport
import Testing

/// The transports of the client with the embedded server, in memory.
@Suite(.timeLimit(.minutes(10))) struct HubTransportTests {
    static let transports = HubTransport.allCases
    static let overHTTP: [HubTransport] = [.serverSentEvents, .longPolling]

    // MARK: Calls

    @Test(arguments: transports, HubFormat.allCases)
    func `calls, streams in both directions and results of the client work`(transport: HubTransport, format: HubFormat) async throws {
        let test = try await HubServerFixture()
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        test.hub.on("Ask") { caller -> String in try await caller.clients.caller.invoke("Name") }
        test.hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        let client = test.client(transport) { $0.hubProtocol = format == .json ? .json : .messagePack }
        client.on("Name") { "anna" }
        guard transport != .serverSentEvents || format == .json else {
            let error = await #expect(throws: HubError.self) { try await client.start() }
            expectEqual(error?.code, .negotiationFailed)
            expect(error?.message.contains("ServerSentEvents (Text)") == true && error?.message.contains("Binary") == true)
            return
        }
        let id = try await client.start()
        expect(client.transport == transport && client.connectionID == id && id != nil)
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        try await expectEqual(client.invoke("Ask", as: String.self), "anna")
        var items: [Int] = []
        for try await item in try client.stream("Count", 3, of: Int.self) { items.append(item) }
        expectEqual(items, [0, 1, 2])
        let numbers = AsyncStream<Int> { continuation in
            for number in 1...4 { continuation.yield(number) }
            continuation.finish()
        }
        try await expectEqual(client.invoke("Sum", HubUpload(numbers), as: Int.self), 10)
        client.stop()
        expectNil(client.transport)
        try await eventually { test.hub.connectionIDs.isEmpty }
    }

    @Test(arguments: transports)
    func `a handler that waits for a method which asks the client holds up no call of its connection`(transport: HubTransport) async throws
    {
        let test = try await HubServerFixture()
        test.hub.on("Ask") { caller -> String in try await caller.clients.caller.invoke("Name") }
        let client = test.client(transport)
        let connection = HubConnection(test.client(transport))
        let answers = EventRecorder<String>()
        client.on("Name") { "anna" }
        client.on("Greet") { [weak client] in
            if let client { answers.record(try await client.invoke("Ask", as: String.self)) }
        }
        await connection.on("Name") { "bert" }
        await connection.on("Greet") { [weak connection] in
            if let connection { answers.record(try await connection.invoke(method: "Ask")) }
        }
        try await client.start()
        try await connection.start()
        try await test.hub.clients.all.send("Greet")
        try await eventually { Set(answers.all) == ["anna", "bert"] }
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        await connection.stop()
    }

    @Test func `updates name the transport before the state is connected`() async throws {
        let test = try await HubServerFixture()
        let client = test.client(.longPolling)
        let updates = EventRecorder<HubUpdate>()
        let token = client.onUpdate(on: HubCallbackExecutor { $0() }) { updates.record($0) }
        let id = try await client.start()
        // Updates follow the state, on the thread that has connected.
        try await eventually { updates.all.count == 3 }
        expectEqual(updates.all, [.state(.connecting), .transport(.longPolling), .state(.connected(connectionID: id))])
        token.cancel()
    }

    @Test(arguments: overHTTP)
    func `stopping is immediate also if the server doesn't answer`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let client = test.client(transport)
        try await client.start()
        test.signalR.network.condition = .silent
        client.stop()
        expectEqual(client.state, .stopped(nil))
        // The connection closes beside the next start.
        test.signalR.clock.advance(by: .seconds(6))
        test.signalR.network.condition = .up
        try await client.start()
        try await expectEqual(client.invoke("Add", 2, 2, as: Int.self), 4)
    }

    // MARK: Fallback

    @Test func `the order is that of the server`() async throws {
        let test = try await HubServerFixture()
        let client = test.client(allowing: .all)
        try await client.start()
        expectEqual(client.transport, .webSockets)
    }

    static let refusals: [(HubTransportKinds, HubTransport)] = [
        (.webSockets, .serverSentEvents), ([.webSockets, .serverSentEvents], .longPolling), (.serverSentEvents, .webSockets),
    ]

    @Test(arguments: refusals)
    func `a transport that is refused is followed by the next one in the same attempt`(
        refused: HubTransportKinds, expected: HubTransport
    ) async throws {
        let test = try await HubServerFixture.recording()
        test.signalR.server.faults.refusedTransports = refused
        let client = test.client(allowing: .all)
        let errors = EventRecorder<HubUpdate>()
        let token = client.onUpdate(on: HubCallbackExecutor { $0() }) { if case .error = $0 { errors.record($0) } }
        let id = try await client.start()
        expect(client.transport == expected && id == client.connectionID)
        // Each transport has a negotiation of its own.
        let count = HubTransport.allCases.firstIndex(of: expected)! + 1
        expectEqual(test.requests.all.filter(\.isNegotiation).count, count)
        expect(errors.all.isEmpty)
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        token.cancel()
    }

    @Test func `if all transports fail, the error says what each of them said`() async throws {
        let test = try await HubServerFixture()
        test.signalR.server.faults.refusedTransports = .all
        let client = test.client(allowing: .all) { $0.retry = .standard }
        let error = await #expect(throws: HubError.self) { try await client.start() }
        let message = error?.message ?? ""
        for transport in HubTransport.allCases { expect(message.contains(transport.rawValue), "\(message)") }
        expect(error?.code == .connectionLost && error?.status == 503)
        expectEqual(client.state, .stopped(error?.withoutCause))
    }

    @Test func `a transport that the server doesn't offer is an error that names both offers`() async throws {
        var configuration = SignalRServerConfiguration()
        configuration.transports = [.longPolling]
        let test = try await HubServerFixture(configuration: configuration)
        let client = test.client(allowing: [.webSockets, .serverSentEvents])
        let error = await #expect(throws: HubError.self) { try await client.start() }
        expectEqual(error?.code, .negotiationFailed)
        expectEqual(error?.message.contains("only LongPolling"), true, "\(error?.message ?? "")")
        expectEqual(error?.message.contains("WebSockets, ServerSentEvents"), true, "\(error?.message ?? "")")
    }

    static let unusable: [(HubTransportKinds, String)] = [
        (.all, "skipped"), ([], "allowedTransports"), ([.webSockets, .longPolling], "skipped"),
    ]

    @Test(arguments: unusable)
    func `a set of transports that can't be used is an invalid configuration`(kinds: HubTransportKinds, text: String) async throws {
        let test = try await HubServerFixture.recording()
        let client = test.client(allowing: kinds) { $0.skipsNegotiation = true }
        let error = await #expect(throws: HubError.self) { try await client.start() }
        expect(error?.code == .invalidConfiguration && error?.message.contains(text) == true, "\(error?.message ?? "")")
        expect(test.requests.all.isEmpty)
    }

    @Test func `a reconnect chooses the transport again`() async throws {
        let test = try await HubServerFixture()
        let client = test.client(allowing: .all) { $0.retry = .delays([.zero]) }
        try await client.start()
        test.signalR.server.faults.refusedTransports = .webSockets
        let updates = client.updates()
        test.signalR.network.cut()
        test.signalR.clock.advance(by: .milliseconds(1))
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        expectEqual(client.transport, .serverSentEvents)
    }

    // MARK: Losses

    @Test(arguments: overHTTP)
    func `a lost connection fails its calls, and the client reconnects`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let (never, input) = AsyncStream<Void>.makeStream()
        test.hub.on("Never") { caller in for await _ in never {} }
        let client = test.client(transport) { $0.retry = .delays([.zero]) }
        let first = try await client.start()
        let updates = client.updates()
        let call = Task { try await client.invoke("Never") }
        try await eventually { client.counters.messagesSent > 0 && test.hub.connectionIDs.count == 1 }
        try await test.cut(client)
        let error = await #expect(throws: HubError.self) { try await call.value }
        expectEqual(error?.message.contains(transport.rawValue), true, "\(error?.message ?? "")")
        test.signalR.clock.advance(by: .milliseconds(1))
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        expect(client.connectionID != first && client.transport == transport)
        input.finish()
    }

    @Test func `long polling has neither pings nor a server timeout, and a stream has both`() async throws {
        let test = try await HubServerFixture()
        let log = EventRecorder<String>()
        let sink = LogSink(minimumLevel: .trace) { _, _, message in log.record(message) }
        let (polling, streaming) = (test.client(.longPolling) { $0.log = sink }, test.client(.serverSentEvents) { $0.log = sink })
        try await polling.start()
        try await streaming.start()
        let before = log.all.count
        // Short steps: what the server sends in one arrives before the next one.
        for _ in 0..<60 { test.signalR.clock.advance(by: .seconds(5)) }
        expect(polling.isConnected && streaming.isConnected)
        let later = log.all.dropFirst(before)
        let polls = later.filter { $0.contains(" GET ") && $0.contains(": status") }
        expect((3...4).contains(polls.count), "one poll each 90 seconds, but \(polls.count)")
        let pings = later.filter { $0.contains(" POST ") && $0.contains(": status") }
        expect((15...21).contains(pings.count), "a ping each 15 seconds, but \(pings.count)")
        test.signalR.network.condition = .silent
        for _ in 0..<7 { test.signalR.clock.advance(by: .seconds(5)) }
        expect(polling.isConnected && !streaming.isConnected)
        guard case .stopped(let error?) = streaming.state else { return expect(false, "the stream should be lost") }
        expectEqual(error.code, .serverTimeout)
        // A poll without an answer ends as well.
        for _ in 0..<20 { test.signalR.clock.advance(by: .seconds(5)) }
        guard case .stopped(let late?) = polling.state else { return expect(false, "the poll should have a time limit") }
        expectEqual(late.code, .connectionLost)
    }

    @Test(arguments: transports)
    func `a check of the connection is answered, or ends it`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let client = test.client(transport)
        try await client.start()
        client.checkConnection()
        for _ in 0..<12 { test.signalR.clock.advance(by: .seconds(1)) }
        expect(client.isConnected)
        test.signalR.network.condition = .silent
        client.checkConnection()
        for _ in 0..<9 { test.signalR.clock.advance(by: .seconds(1)) }
        expect(client.isConnected)
        for _ in 0..<2 { test.signalR.clock.advance(by: .seconds(1)) }
        expect(!client.isConnected)
    }

    // MARK: Header fields and tokens

    @Test(arguments: overHTTP)
    func `every request has the token, the header fields and the cookies`(transport: HubTransport) async throws {
        let test = try await HubServerFixture.recording()
        let client = test.client(transport) {
            $0.accessToken = { "secret" }
            $0.headers = ["X-App": "mine", "Accept": "text/plain"]
        }
        try await client.start()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        client.stop()
        try await eventually { test.hub.connectionIDs.isEmpty }
        let requests = test.connectionRequests
        let methods = Set(requests.map(\.method))
        expectEqual(methods, (transport == .longPolling ? ["GET", "POST", "DELETE"] : ["GET", "POST"]))
        for request in requests {
            expect(request.headers["Authorization"] == "Bearer secret" && request.headers["X-App"] == "mine")
            expectEqual(request.headers["X-Requested-With"], "XMLHttpRequest")
            expect(request.headers["Accept"] != "text/plain")
        }
        let types = Set(requests.filter { $0.method == "POST" }.map { $0.headers["Content-Type"] })
        expectEqual(types, ["text/plain;charset=UTF-8"])
        // Nothing between the server and the client has the answer to another poll.
        let polls = requests.filter { $0.method == "GET" }.map(\.target)
        expectEqual(Set(polls).count, polls.count)
    }

    @Test(arguments: overHTTP)
    func `a request that is refused asks for another token, and is repeated once`(transport: HubTransport) async throws {
        let test = try await HubServerFixture(deciding: {
            $0.token == "expired" && !$0.isNegotiation ? .reject(status: 401) : .accept(userID: "anna")
        })
        let tokens = CountedTokens { $0 == 1 ? "expired" : "fresh" }
        let client = test.client(transport) { $0.accessToken = tokens.provider }
        try await client.start()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        expectEqual(tokens.count, 2)
        expectEqual(test.requests.all.filter { $0.token == "expired" && !$0.isNegotiation }.count, 1)
        expect(client.isConnected)
    }

    @Test(arguments: overHTTP)
    func `a token that expires in the middle of a connection is replaced`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let tokens = CountedTokens { "token-\($0)" }
        let client = test.client(transport) { $0.accessToken = tokens.provider }
        let id = try await client.start()
        test.signalR.server.faults.expiredTokens = ["token-1"]
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        try await expectEqual(client.invoke("Add", 1, 3, as: Int.self), 4)
        expect(client.connectionID == id && tokens.count == 2)
    }

    @Test func `a poll that is refused after a message shares the token that replaced its own`() async throws {
        let polls = EventRecorder<Int>()
        let isReplaced = Signal()
        let test = try await HubServerFixture(deciding: { request in
            guard request.token == "token-1", !request.isNegotiation else { return .accept(userID: nil) }
            if request.request.method == "GET" {
                polls.record(1)
                // The first two bring the answer to the handshake.
                guard polls.all.count > 2 else { return .accept(userID: nil) }
                await isReplaced.wait()
                return .reject(status: 401)
            }
            return polls.all.count > 2 ? .reject(status: 401) : .accept(userID: nil)
        })
        let tokens = CountedTokens { "token-\($0)" }
        let client = test.client(.longPolling) { $0.accessToken = tokens.provider }
        try await client.start()
        try await eventually { polls.all.count == 3 }
        // The message gets another token, while the poll is refused with the one before.
        try await client.send("Add", 1, 2)
        try await eventually { test.requests.all.contains { $0.token == "token-2" } }
        isReplaced.send()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        expectEqual(tokens.count, 2)
    }

    @Test(arguments: overHTTP)
    func `a token that stays refused ends the connection as unauthorized`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let tokens = CountedTokens { _ in "token" }
        let client = test.client(transport) { $0.accessToken = tokens.provider }
        try await client.start()
        test.signalR.server.faults.expiredTokens = ["token"]
        let error = await #expect(throws: HubError.self) { try await client.invoke("Add", 1, 2) }
        expect(error?.code == .unauthorized && error?.status == 401)
        expect(error?.message.contains("token") == true && tokens.count == 2)
        guard case .stopped(let reason) = client.state else { return expect(false, "the client should be stopped") }
        expectEqual(reason?.code, .unauthorized)
    }

    @Test(arguments: overHTTP)
    func `a provider that fails for a refused request ends the connection with its error`(transport: HubTransport) async throws {
        struct NoToken: Error {}
        let test = try await HubServerFixture()
        let tokens = CountedTokens { number throws in
            if number > 1 { throw NoToken() }
            return "token"
        }
        let client = test.client(transport) { $0.accessToken = tokens.provider }
        try await client.start()
        test.signalR.server.faults.expiredTokens = ["token"]
        let error = await #expect(throws: HubError.self) { try await client.invoke("Add", 1, 2) }
        expectEqual(error?.code, .tokenFailed)
        guard case .stopped(let reason) = client.state else { return expect(false, "the client should be stopped") }
        expectEqual(reason?.code, .tokenFailed)
    }

    @Test(arguments: overHTTP)
    func `after a refresh of the authentication, requests have the new token`(transport: HubTransport) async throws {
        var configuration = SignalRServerConfiguration()
        configuration.allowsAuthenticationRefresh = true
        let test = try await HubServerFixture.recording(configuration: configuration)
        let tokens = CountedTokens { "token-\($0)" }
        let client = test.client(transport) { $0.accessToken = tokens.provider }
        try await client.start()
        try await client.refreshAuthentication()
        let before = test.connectionRequests.count
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        // One that was sent before may be recorded after the refresh.
        let later = test.connectionRequests.dropFirst(before)
        expectEqual(later.last?.headers["Authorization"], "Bearer token-2")
    }

    // MARK: Redirects of HTTP

    /// Redirects all requests to the same target of another address.
    private final class Redirecting: ListenerHandler {
        private let address: ListenerAddress
        let requests = EventRecorder<HTTPRequestHead>()

        init(to address: ListenerAddress) {
            self.address = address
        }

        private func response(_ request: HTTPRequestHead) -> HTTPResponse {
            self.requests.record(request)
            let location = "http://\(self.address.host):\(self.address.port)\(request.target)"
            return HTTPResponse(HTTPResponseHead(status: 307, headers: ["Location": location]))
        }

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { responder.respond(self.response(request)) }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(self.response(request)) }
    }

    @Test(arguments: [HubTransportKinds.all, .serverSentEvents, .longPolling])
    func `a hub whose requests are all redirected is used over HTTP, without the token`(transports: HubTransportKinds) async throws {
        let test = try await HubServerFixture.recording()
        let redirecting = Redirecting(to: test.signalR.address)
        let address = try await test.signalR.network.listener().start(redirecting)
        let client = test.client(allowing: transports) {
            $0.endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat")
            $0.accessToken = { "secret" }
            $0.headers = ["X-Key": "secret"]
        }
        try await client.start()
        expectEqual(client.transport, transports == .longPolling ? .longPolling : .serverSentEvents)
        for number in 1...3 { try await expectEqual(client.invoke("Add", number, 2, as: Int.self), number + 2) }
        expect(redirecting.requests.all.allSatisfy { $0.headers["Authorization"] == "Bearer secret" && $0.headers["X-Key"] == "secret" })
        expect(test.requests.all.allSatisfy { $0.token == nil && $0.request.headers["X-Key"] == nil })
        client.stop()
        try await eventually { test.hub.connectionIDs.isEmpty }
    }

    // MARK: Redirects to a service

    /// A server that answers negotiations with the URL and a token of another one, as the Azure SignalR Service is used.
    private struct Redirected {
        let app: HubServerFixture
        let service: SignalRServer
        let hub: Hub
        let requests = EventRecorder<SignalRAuthenticationRequest>()

        init() async throws {
            self.app = try await HubServerFixture.recording()
            var hooks = SignalRServerHooks()
            hooks.authenticate = { [requests] request in
                requests.record(request)
                return request.token?.hasPrefix("service") == true ? .accept(userID: nil) : .reject(status: 401)
            }
            self.service = SignalRServer(network: self.app.signalR.network, hooks: hooks, log: .none)
            let address = try await self.service.start(on: self.app.signalR.network.listener())
            self.hub = self.service.hub("/client")
            self.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
            self.app.hub.redirect(
                to: "http://\(address.host):\(address.port)/client?hub=chat&asrs.op=%2Fclient", accessToken: "service-1")
        }
    }

    @Test(arguments: transports)
    func `after a redirect, requests have the service's token, and a reconnect asks the application again`(
        transport: HubTransport
    ) async throws {
        let test = try await Redirected()
        let tokens = CountedTokens { "app-\($0)" }
        let client = test.app.client(transport) {
            $0.accessToken = tokens.provider
            $0.headers = ["X-App": "mine"]
            $0.retry = .delays([.zero])
        }
        let first = try await client.start()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        let requests = test.requests.all
        expect(requests.allSatisfy { $0.token == "service-1" && $0.request.headers["X-App"] == nil })
        expect(requests.allSatisfy { $0.request.target.contains("hub=chat&asrs.op=%2Fclient") })
        expectEqual(test.app.requests.all.map(\.token), ["app-1"])
        // The token of the service expires. The application's wouldn't help there.
        test.service.faults.expiredTokens = ["service-1"]
        let updates = client.updates()
        if transport == .webSockets {
            test.app.signalR.network.cut()
        } else {
            let error = await #expect(throws: HubError.self) { try await client.invoke("Add", 1, 2) }
            expectEqual(error?.code, .unauthorized)
        }
        expectEqual(tokens.count, 1)
        test.service.faults.expiredTokens = []
        test.app.signalR.clock.advance(by: .milliseconds(1))
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        expect(client.connectionID != first && client.transport == transport)
        expectEqual(test.app.requests.all.map(\.token), ["app-1", "app-2"])
    }

    @Test func `a fallback negotiates with the service again, without asking the application`() async throws {
        let test = try await Redirected()
        test.service.faults.refusedTransports = [.webSockets, .serverSentEvents]
        let client = test.app.client(allowing: .all) { $0.accessToken = { "app" } }
        try await client.start()
        expectEqual(client.transport, .longPolling)
        expectEqual(test.app.requests.all.count, 1)
        expectEqual(test.requests.all.filter(\.isNegotiation).count, 3)
    }

    // MARK: Back-pressure

    @Test(arguments: overHTTP)
    func `handlers that are slow stop the reading, and all calls are handled in order`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let handled = EventRecorder<Int>()
        let (opened, gate) = AsyncStream<Void>.makeStream()
        let client = test.client(transport) { $0.handlerBuffer = HubBufferLimit(count: 4) }
        client.on("Note") { (number: Int) in
            if handled.all.isEmpty { for await _ in opened { break } }
            handled.record(number)
        }
        try await client.start()
        for number in 0..<100 { try await test.hub.clients.all.send("Note", number) }
        try await eventually { client.counters.messagesReceived > 0 }
        expect(handled.all.isEmpty)
        gate.yield()
        try await eventually { handled.all.count == 100 }
        expectEqual(handled.all, Array(0..<100))
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
    }

    // MARK: The API of signalr-client-swift

    @Test(arguments: transports)
    func `the option transport selects the transport`(transport: HubTransport) async throws {
        let test = try await HubServerFixture.recording()
        let type: HttpTransportType =
            switch transport {
            case .webSockets: .webSockets
            case .serverSentEvents: .serverSentEvents
            case .longPolling: .longPolling
            }
        let connection = HubConnectionBuilder().withUrl(url: test.signalR.url("/chat"), transport: type)
            .withTransports(test.signalR.network.transports()).build()
        try await connection.start()
        let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(sum, 3)
        let isPolling = test.connectionRequests.contains { $0.method == "GET" && $0.target.contains("_=") }
        expectEqual(isPolling, (transport == .longPolling))
        await connection.stop()
    }

    /// Passes requests on to the in-memory network, and returns whole responses.
    private struct CountingClient: HttpClient {
        let http: any HTTPTransport
        let requests = EventRecorder<HttpRequest>()

        func send(request: HttpRequest) async throws -> (StringOrData, HttpResponse) {
            self.requests.record(request)
            var headers = HTTPHeaders()
            for (name, value) in request.headers { headers.add(name, value) }
            var body: [UInt8] = []
            if case .data(let data)? = request.content { body = Array(data) }
            let response = try await self.http.send(
                HTTPRequest(request.method.rawValue, Endpoint(request.url), headers: headers, body: body))
            return (.string(String(decoding: response.body, as: UTF8.self)), HttpResponse(statusCode: response.head.status))
        }
    }

    @Test func `an HttpClient carries the negotiation and long polling, and Server-Sent Events fall back`() async throws {
        let test = try await HubServerFixture.recording()
        let client = CountingClient(http: test.signalR.network.transports().http)
        var options = HttpConnectionOptions()
        options.httpClient = client
        options.transport = [.serverSentEvents, .longPolling]
        let connection = HubConnectionBuilder().withUrl(url: test.signalR.url("/chat"), options: options)
            .withTransports(test.signalR.network.transports()).build()
        try await connection.start()
        let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(sum, 3)
        expect(client.requests.all.contains { $0.method == .GET && $0.url.contains("_=") })
        await connection.stop()
        try await eventually { client.requests.all.contains { $0.method == .DELETE } }

        options.transport = .serverSentEvents
        let streaming = HubConnectionBuilder().withUrl(url: test.signalR.url("/chat"), options: options)
            .withTransports(test.signalR.network.transports()).build()
        let error = await #expect(throws: (any Error).self) { try await streaming.start() }
        expect("\(error.map { "\($0)" } ?? "")".contains("can't stream"))
    }
}

extension HubError {
    /// The error as the state of a client has it.
    fileprivate var withoutCause: HubError { HubError(self.code, self.message, serverMessage: self.serverMessage) }
}
