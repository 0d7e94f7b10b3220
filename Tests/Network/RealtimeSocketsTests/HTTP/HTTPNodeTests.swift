import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// Tests of kept connections against the `http` server of Node, which closes them at many different moments.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .enabled(if: NodeServer.path != nil, "install Node, for example with apt-get install nodejs"))
struct HTTPNodeTests {
    /// Closes connections after idle times of 0 to 6 ms, in order or by a reset, and after 10 requests.
    private static let script = """
        let count = 0
        const server = require('http').createServer((request, response) => {
            request.resume()
            request.on('end', () => {
                const [socket, number] = [request.socket, ++count]
                response.setHeader('X-Target', request.url)
                response.on('finish', () => {
                    if (number % 4 == 0) setTimeout(() => socket.destroy(), number % 7)
                    if (number % 4 == 1) setImmediate(() => socket.end())
                    if (number % 4 == 2) setTimeout(() => socket.resetAndDestroy(), 2 + number % 5)
                })
                response.end('ok')
            })
        })
        server.keepAliveTimeout = 5
        server.maxRequestsPerSocket = 10
        server.listen(0, '127.0.0.1', () => console.log(server.address().port))
        """

    /// Sends requests, one after the other in each of several tasks, with pauses of different lengths.
    private static func send(_ method: String, _ transport: SocketHTTPTransport) async throws -> (successes: Int, errors: [TransportError])
    {
        let server = try NodeServer(Self.script)
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
                            #expect(response.head.headers["X-Target"] == target)
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
        #expect(result.errors.isEmpty && result.successes == 4 * scaled(300))
    }

    @Test func `requests on new connections succeed whenever the server closes an idle one`() async throws {
        var limits = KeepAliveLimits.forTests
        limits.unrepeatableIdleTime = .zero
        let result = try await Self.send("POST", SocketHTTPTransport(keepAlive: limits))
        #expect(result.errors.isEmpty && result.successes == 4 * scaled(300))
    }

    @Test func `other requests succeed or fail because the server closed the connection`() async throws {
        let result = try await Self.send("POST", SocketHTTPTransport(keepAlive: .forTests))
        #expect(result.successes > 0)
        #expect(result.errors.allSatisfy { $0.code == .closed || $0.code == .reset })
    }
}

/// A script that Node runs.
private struct NodeServer {
    struct Failure: Error {
        let number: Int32
    }

    static let path = ["/usr/bin/node", "/usr/local/bin/node", "/opt/homebrew/bin/node"].first { (path: String) in access(path, X_OK) == 0 }

    private let process: pid_t
    private let output: Int32

    init(_ script: String) throws {
        var pipe: [Int32] = [-1, -1]
        guard Self.makePipe(&pipe) else { throw Failure(number: errno) }
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        #else
        var actions = posix_spawn_file_actions_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pipe[1], 1)
        let path = Self.path ?? "node"
        var arguments: [UnsafeMutablePointer<CChar>?] = [path, "-e", script].map { (text: String) in strdup(text) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process: pid_t = 0
        let result = posix_spawnp(&process, path, &actions, nil, &arguments, environ)
        close(pipe[1])
        guard result == 0 else {
            close(pipe[0])
            throw Failure(number: result)
        }
        _ = fcntl(pipe[0], F_SETFL, O_NONBLOCK)
        (self.process, self.output) = (process, pipe[0])
    }

    /// Waits for the line with the port.
    func port() async throws -> Int {
        var text: [UInt8] = []
        try await eventually {
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = read(self.output, &buffer, buffer.count)
            if count > 0 { text += buffer[..<count] }
            return text.last == UInt8(ascii: "\n") || count == 0
        }
        return try #require(Int(String(decoding: text.dropLast(), as: UTF8.self)))
    }

    func stop() {
        kill(self.process, SIGKILL)
        var status: Int32 = 0
        waitpid(self.process, &status, 0)
        close(self.output)
    }

    /// Other processes that tests start don't inherit the pipe.
    private static func makePipe(_ pipe: inout [Int32]) -> Bool {
        #if canImport(Darwin)
        guard Darwin.pipe(&pipe) == 0 else { return false }
        #elseif canImport(Glibc)
        guard Glibc.pipe(&pipe) == 0 else { return false }
        #else
        guard Musl.pipe(&pipe) == 0 else { return false }
        #endif
        for descriptor in pipe { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        return true
    }
}

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#else
import Musl
#endif
