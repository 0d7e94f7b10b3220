import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import RealtimeTransports
import SignalRHubs
import SignalRWire

/// An ASP.NET Core server in its own process, with the hubs of `peers aspnet`.
final class ASPNETServer: Sendable {
    /// A server for all tests that don't change or count anything in it. It ends with the process of the tests.
    static let shared = Task { try await ASPNETServer() }

    private let peer: Peer
    let port: Int

    init(port: Int? = nil) async throws {
        self.peer = try Peer("aspnet", port.map { ["--port", "\($0)"] } ?? [])
        self.port = try await self.peer.ready()["port"]?.int ?? 0
    }

    /// Ends the process, after which the port is free.
    func stopped() async throws { try await self.peer.stopped() }

    func endpoint(_ target: String) -> Endpoint { Endpoint(scheme: "http", host: "127.0.0.1", port: self.port, target: target) }

    /// Sends a request of the server's `/control` API.
    @discardableResult
    func control(_ target: String, _ method: String = "POST") async throws -> JSONValue {
        let response = try await Transports.standard.http.send(HTTPRequest(method, self.endpoint("/control/\(target)")))
        return try JSONValue(parsing: response.body)
    }

    func client(_ path: String, _ format: HubFormat = .json, _ configure: (inout HubConfiguration) -> Void = { _ in }) -> HubClient {
        var options = HubConfiguration(self.endpoint(path), transports: .standard)
        options.format = format
        options.log = .none
        options.callTimeLimit = .seconds(120)
        configure(&options)
        return HubClient(options)
    }

    /// Returns a client that is connected.
    ///
    /// The server forgets a negotiated connection that isn't opened within 15 seconds. When other tests occupy the processor for so long, the
    /// client starts again, and the server forgets the requests of the first start.
    func connected(
        _ path: String, _ format: HubFormat = .json, _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws -> HubClient {
        let client = self.client(path, format, configure)
        do {
            try await client.start()
        } catch {
            guard error.message.contains("No Connection with that ID") else { throw error }
            try await self.control("requests?clear=true", "GET")
            try await client.start()
        }
        return client
    }
}

/// Returns the error that a closure throws.
func hubError<Value>(_ body: () async throws -> Value) async -> HubError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? HubError
    }
}

extension HubStreamResult {
    /// The elements of the stream, and the error with which it ended.
    func all() async -> (elements: [Element], error: HubError?) {
        var elements: [Element] = []
        do throws(HubError) {
            for try await element in self { elements.append(element) }
            return (elements, nil)
        } catch {
            return (elements, error)
        }
    }
}
