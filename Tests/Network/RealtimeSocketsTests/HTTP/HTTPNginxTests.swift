import ProxySupport
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// Kept connections with nginx between client and server: those of the client to nginx, and those of nginx to the server.
@Suite(.usesSockets, .timeLimit(.minutes(10)), .requires(.nginx))
struct HTTPNginxTests {
    /// Runs `body` with a listener and a running nginx in front of it.
    private static func with(
        _ handler: TestHandler, limits: ListenerLimits = .forTests, _ change: (inout Nginx.Options) -> Void,
        _ body: (TestRelay, Nginx) async throws -> Void
    ) async throws {
        try await withListener(handler, limits: limits) { address in
            let relay = try TestRelay(to: address.port)
            let nginx = try Nginx(to: relay.port, change)
            try await nginx.start()
            try await body(relay, nginx)
            await nginx.stop()
            await relay.stop()
        }
    }

    private static func request(_ method: String, _ nginx: Nginx, _ target: String, isSecure: Bool = false) -> HTTPRequest {
        .forTests(method, Endpoint(scheme: isSecure ? "https" : "http", host: "localhost", port: nginx.port, target: target))
    }

    private static let schemes = HTTPClientServerTests.schemes

    // MARK: The client's connections

    @Test(arguments: Self.schemes, ["GET", "POST"])
    func `a connection that nginx closes after some requests is replaced`(_ scheme: String, method: String) async throws {
        let handler = TestHandler()
        try await Self.with(handler) {
            ($0.isSecure, $0.keepAliveRequests) = (scheme == "https", 3)
        } _: { _, nginx in
            let transport = SocketHTTPTransport(tls: .trustingTestRoot, keepAlive: .forTests)
            for number in 0..<200 {
                let response = try await transport.send(Self.request(method, nginx, "/\(number)", isSecure: scheme == "https"))
                expectEqual(response.head.status, 200)
                // nginx announces the end with its third response.
                expectEqual(transport.pool?.count, (number % 3 == 2 ? 0 : 1))
            }
            expectEqual(handler.requests.withLock { $0.map(\.head.target) }, (0..<200).map { "/\($0)" })
        }
    }

    @Test(arguments: Self.schemes, ["GET", "POST"])
    func `a connection that nginx closes for inactivity is replaced`(_ scheme: String, method: String) async throws {
        let handler = TestHandler()
        try await Self.with(handler) {
            ($0.isSecure, $0.keepAliveTimeout) = (scheme == "https", .milliseconds(10))
        } _: { _, nginx in
            let transport = SocketHTTPTransport(tls: .trustingTestRoot, keepAlive: .forTests)
            for number in 0..<20 {
                let response = try await transport.send(Self.request(method, nginx, "/\(number)", isSecure: scheme == "https"))
                expectEqual(response.head.status, 200)
                try await eventually { transport.pool?.count == 0 }
            }
            expectEqual(handler.requests.withLock { $0.map(\.head.target) }, (0..<20).map { "/\($0)" })
        }
    }

    /// Sends requests, one after the other in each of several tasks, with pauses that are about as long as nginx keeps connections.
    ///
    /// - Returns: The targets of the requests that succeeded, and the errors of the others.
    private static func send(_ method: String, _ nginx: Nginx) async -> (successes: Set<String>, errors: [TransportError]) {
        let transport = SocketHTTPTransport(keepAlive: .forTests)
        return await withTaskGroup(of: (Set<String>, [TransportError]).self) { group in
            for task in 0..<4 {
                group.addTask {
                    var (successes, errors) = (Set<String>(), [TransportError]())
                    for number in 0..<scaled(300) {
                        let target = "/\(task)/\(number)"
                        do throws(TransportError) {
                            let response = try await transport.send(Self.request(method, nginx, target))
                            guard response.head.status == 200 else {
                                errors.append(TransportError(.requestRejected, "\(target) was rejected", response: response))
                                continue
                            }
                            expect(response.text.contains(target))
                            successes.insert(target)
                        } catch {
                            errors.append(error)
                        }
                        for _ in 0..<(number * 37 % 1000) { await Task.yield() }
                    }
                    return (successes, errors)
                }
            }
            return await group.reduce(into: (Set<String>(), [TransportError]())) { $0 = ($0.0.union($1.0), $0.1 + $1.1) }
        }
    }

    @Test func `requests that may be repeated succeed whenever nginx closes a connection`() async throws {
        try await Self.with(TestHandler()) {
            $0.keepAliveTimeout = .milliseconds(3)
        } _: { _, nginx in
            let result = await Self.send("GET", nginx)
            expect(result.errors.isEmpty && result.successes.count == 4 * scaled(300))
        }
    }

    @Test func `other requests succeed or fail, and arrive at most once, whenever nginx closes a connection`() async throws {
        let handler = TestHandler()
        try await Self.with(handler) {
            ($0.keepAliveTimeout, $0.keepAliveRequests) = (.milliseconds(3), 5)
        } _: { _, nginx in
            let result = await Self.send("POST", nginx)
            expect(result.successes.count + result.errors.count == 4 * scaled(300) && !result.successes.isEmpty)
            expect(result.errors.allSatisfy { $0.code == .closed || $0.code == .reset }, "\(result.errors)")
            let targets = handler.requests.withLock { $0.map(\.head.target) }
            expectEqual(Set(targets).count, targets.count)
            expect(Set(targets).isSuperset(of: result.successes))
        }
    }

    // MARK: The connections of nginx to the server

    @Test(arguments: Self.schemes)
    func `nginx sends many requests on few connections`(_ scheme: String) async throws {
        let handler = TestHandler { head, body, responder in
            guard head.target.hasSuffix("0") else { return responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: body)) }
            responder.begin(HTTPResponseHead(status: 200))
            responder.write(body)
            responder.end()
        }
        try await Self.with(handler) {
            ($0.isSecure, $0.serverConnections) = (scheme == "https", 4)
        } _: { relay, nginx in
            let transport = SocketHTTPTransport(tls: .trustingTestRoot, keepAlive: .off)
            for number in 0..<100 {
                var request = Self.request(number % 2 == 0 ? "POST" : "GET", nginx, "/\(number)", isSecure: scheme == "https")
                if request.method == "POST" { request.body = pattern(number * 100) }
                let response = try await transport.send(request)
                expect(response.head.status == 200 && response.body == request.body)
            }
            expectEqual(handler.requests.withLock { $0.count }, 100)
            expect((1...4).contains(relay.connectionCount), "\(relay.connectionCount)")
        }
    }

    @Test(arguments: ["GET", "POST"])
    func `requests succeed whenever nginx closes a connection to the server`(_ method: String) async throws {
        // By default, it is nginx that closes idle connections.
        expect(ListenerLimits().keepAliveTimeout > Nginx.Options().serverIdleTime)
        try await Self.with(TestHandler()) {
            ($0.serverConnections, $0.serverIdleTime) = (4, .milliseconds(3))
        } _: { _, nginx in
            let result = await Self.send(method, nginx)
            expect(result.errors.isEmpty && result.successes.count == 4 * scaled(300), "\(result.errors)")
        }
    }

    /// nginx may send a request at the moment when the server closes the connection, and then repeats only some kinds of requests. A server
    /// that keeps connections for longer than nginx does avoids this, as in the test before.
    @Test func `requests succeed, or are rejected and arrive at most once, whenever the server closes a connection`() async throws {
        let handler = TestHandler()
        try await Self.with(handler, limits: .forTests.with { $0.keepAliveTimeout = .milliseconds(3) }) {
            $0.serverConnections = 4
        } _: { _, nginx in
            let reads = await Self.send("GET", nginx)
            expect(reads.errors.isEmpty && reads.successes.count == 4 * scaled(300), "\(reads.errors)")
            handler.requests.withLock { $0 = [] }
            let writes = await Self.send("POST", nginx)
            expect(writes.errors.allSatisfy { $0.status == 502 }, "\(writes.errors)")
            let targets = handler.requests.withLock { $0.map(\.head.target) }
            expectEqual(Set(targets).count, targets.count)
            expect(Set(targets).isSuperset(of: writes.successes))
        }
    }
}
