import RealtimeCore
import Testing

@testable import RealtimeSockets

/// A server that waits for the end of a request's head and then runs a script.
struct ScriptedServer: Sendable {
    typealias Script = @Sendable (SocketStream, EventRecorder) async -> Void

    let endpoint: Endpoint
    /// One recorder per connection.
    let connections: Log<EventRecorder>

    /// - Parameter stopsReading: Whether the server reads no more after its first bytes. The script runs later: until then, the server would
    ///   read a large request, and thereby the client would send it.
    static func run(
        host: String = "127.0.0.1", tls: TLSServerConfiguration? = nil, stopsReading: Bool = false, _ script: @escaping Script,
        _ body: (ScriptedServer) async throws -> Void
    ) async throws {
        let loop = try EventLoop("test")
        let connections = Log<EventRecorder>()
        var options = TCPListener.Options()
        options.host = host
        if let tls {
            let context = try TLSContext.server(tls)
            options.security = { (descriptor) throws(TransportError) in try TLSSession(server: context, descriptor: descriptor) }
        }
        let listener = try TCPListener(options, loops: [loop]) { stream in
            let recorder = EventRecorder(onReceived: { stream, _ in if stopsReading { stream.pauseReading() } })
            connections.add(recorder)
            Task {
                await recorder.until { $0.ended > 0 || $0.bytes.contains(sequence: Array("\r\n\r\n".utf8)) }
                await script(stream, recorder)
            }
            return recorder
        }
        let endpoint = Endpoint(scheme: tls == nil ? "http" : "https", host: host, port: listener.address.port)
        do {
            try await body(ScriptedServer(endpoint: endpoint, connections: connections))
        } catch {
            loop.shutdown()
            throw error
        }
        loop.shutdown()
    }

    /// Runs a server that sends the same response to every request and then closes the connection.
    static func responding(
        _ response: String, tls: TLSServerConfiguration? = nil, _ body: (ScriptedServer) async throws -> Void
    ) async throws {
        try await Self.run(tls: tls, { stream, _ in stream.respond(response) }, body)
    }
}

extension SocketStream {
    func respond(_ text: String) {
        self.send(text.utf8)
        self.finishWriting()
    }
}

extension HTTPTransport {
    /// Sends a request that is expected to fail, and returns its error.
    func failure(_ request: HTTPRequest, sourceLocation: SourceLocation = #_sourceLocation) async -> TransportError? {
        do throws(TransportError) {
            let response = try await self.send(request)
            Issue.record("unexpected response with status \(response.head.status)", sourceLocation: sourceLocation)
            return nil
        } catch {
            return error
        }
    }
}

extension HTTPRequest {
    /// Creates a request with timeouts that no test reaches by accident.
    static func forTests(_ method: String, _ endpoint: Endpoint, headers: HTTPHeaders = [:], body: [UInt8] = []) -> HTTPRequest {
        HTTPRequest(method, endpoint, headers: headers, body: body, connectTimeout: .seconds(600), idleTimeout: .seconds(600))
    }

    static func get(_ endpoint: Endpoint, _ headers: HTTPHeaders = [:]) -> HTTPRequest { .forTests("GET", endpoint, headers: headers) }
}

extension HTTPResponse {
    var text: String { String(decoding: self.body, as: UTF8.self) }
}

/// Returns the number of open file descriptors of this process, except timers: Dispatch opens another one when a task sleeps for the first time.
func descriptorCount() -> Int {
    (0..<4096).count { fcntl(Int32($0), F_GETFD) >= 0 && !isTimer($0) }
}

private func isTimer(_ descriptor: Int) -> Bool {
    var target = [CChar](repeating: 0, count: 64)
    return readlink("/proc/self/fd/\(descriptor)", &target, target.count - 1) > 0
        && target.starts(with: "anon_inode:[timerfd]".utf8.map { CChar($0) })
}

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif
