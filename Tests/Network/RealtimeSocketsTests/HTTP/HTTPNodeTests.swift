import Processes
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// Tests of kept connections against the `http` server of Node, which closes them at many different moments.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .requires(.node))
struct HTTPNodeTests {
    /// Closes connections after idle times of 0 to 6 ms, and after 10 requests.
    ///
    /// - Parameter resets: Whether some of them are reset. A client that hasn't read a response by then loses it.
    private static func script(resets: Bool) -> String {
        """
        let count = 0
        const server = require('http').createServer((request, response) => {
            request.resume()
            request.on('end', () => {
                const [socket, number] = [request.socket, ++count]
                response.setHeader('X-Target', request.url)
                response.on('finish', () => {
                    if (number % 4 == 0) setTimeout(() => socket.destroy(), number % 7)
                    if (number % 4 == 1) setImmediate(() => socket.end())
                    if (number % 4 == 2) setTimeout(() => socket.\(resets ? "resetAndDestroy" : "destroy")(), 2 + number % 5)
                })
                response.end('ok')
            })
        })
        server.keepAliveTimeout = 5
        server.maxRequestsPerSocket = 10
        server.listen(0, '127.0.0.1', () => console.log(server.address().port))
        """
    }

    /// Sends requests, one after the other in each of several tasks, with pauses of different lengths.
    private static func send(
        _ method: String, _ transport: SocketHTTPTransport, resets: Bool = false
    ) async throws -> (successes: Int, errors: [TransportError]) {
        let server = try NodeServer(Self.script(resets: resets))
        defer { server.stop() }
        let port = try await server.port()
        return await withTaskGroup(of: [TransportError?].self) { group in
            for task in 0..<4 {
                group.addTask {
                    var results: [TransportError?] = []
                    for number in 0..<scaled(300) {
                        let target = "/\(task)/\(number)"
                        let endpoint = Endpoint(scheme: "http", host: "127.0.0.1", port: port, target: target)
                        do throws(TransportError) {
                            let response = try await transport.send(.forTests(method, endpoint))
                            expectEqual(response.head.headers["X-Target"], target)
                            results.append(nil)
                        } catch {
                            results.append(error)
                        }
                        for _ in 0..<(number * 37 % 400) { await Task.yield() }
                    }
                    return results
                }
            }
            var (successes, errors) = (0, [TransportError]())
            for await results in group {
                successes += results.count { $0 == nil }
                errors += results.compactMap { $0 }
            }
            return (successes, errors)
        }
    }

    @Test func `requests that may be repeated succeed whenever the server closes a connection`() async throws {
        let result = try await Self.send("GET", SocketHTTPTransport(keepAlive: .forTests))
        expect(result.errors.isEmpty && result.successes == 4 * scaled(300), "\(result.errors)")
    }

    @Test func `requests on new connections succeed whenever the server closes an idle one`() async throws {
        var limits = KeepAliveLimits.forTests
        limits.unrepeatableIdleTime = .zero
        let result = try await Self.send("POST", SocketHTTPTransport(keepAlive: limits))
        expect(result.errors.isEmpty && result.successes == 4 * scaled(300), "\(result.errors)")
    }

    @Test func `other requests succeed or fail because the server closed the connection`() async throws {
        let result = try await Self.send("POST", SocketHTTPTransport(keepAlive: .forTests), resets: true)
        expect(result.successes > 0)
        expect(result.errors.allSatisfy { $0.code == .closed || $0.code == .reset })
    }
}

/// A script that Node runs.
private struct NodeServer {
    private let process: ChildProcess

    init(_ script: String) throws { self.process = try ChildProcess([Program.path(of: "node") ?? "node", "-e", script]) }

    /// Waits for the line with the port.
    func port() async throws -> Int {
        let line = try await onOwnThread { self.process.readLine() }
        return try #require(line.flatMap { Int($0) })
    }

    func stop() {
        self.process.signal(SIGKILL)
        self.process.end()
    }
}
