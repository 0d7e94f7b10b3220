import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import RealtimeTransports
import SignalRClient
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// A transport with a format that it can carry.
struct HubPair: CaseIterable, Hashable, Sendable, CustomStringConvertible {
    let transport: HubTransport
    let format: HubFormat

    static let json = HubPair(transport: .webSockets, format: .json)
    static let messagePack = HubPair(transport: .webSockets, format: .messagePack)
    static let allCases = [
        json, messagePack, HubPair(transport: .serverSentEvents, format: .json), HubPair(transport: .longPolling, format: .json),
        HubPair(transport: .longPolling, format: .messagePack),
    ]
    /// One pair for each transport.
    static let allTransports = [json, allCases[2], allCases[3]]
    /// The pairs whose messages are sent with POST requests.
    static let overHTTP = Array(allCases.dropFirst(2))

    /// Without a hyphen, which separates the parts of the server's access tokens.
    var description: String { "\(self.transport)_\(self.format)" }
}

/// An ASP.NET Core server in its own process, with the hubs of `peers aspnet`.
final class ASPNETServer: Sendable {
    /// A server for all tests that don't change or count anything in it. It ends with the process of the tests.
    static let shared = Task { try await ASPNETServer() }

    private let peer: Peer
    let port: Int

    init(port: Int? = nil, options: [String] = []) async throws {
        self.peer = try Peer("aspnet", (port.map { ["--port", "\($0)"] } ?? []) + options)
        self.port = try await self.peer.ready()["port"]?.int ?? 0
    }

    /// Ends the process, after which the port is free.
    func stopped() async throws { try await self.peer.stopped() }

    func endpoint(_ target: String) -> Endpoint { Endpoint(scheme: "http", host: "127.0.0.1", port: self.port, target: target) }

    /// Sends a request of the server's `/control` API.
    @discardableResult
    func control(_ target: String, _ method: String = "POST") async throws -> JSONValue {
        try await ASPNETControl(port: self.port)(target, method)
    }

    /// Cuts the connections of all clients, and returns how often.
    @discardableResult
    func cut() async throws -> Int { try await ASPNETControl(port: self.port).cut() }

    /// Ends a connection of a hub, or all of them. A client may be connected before the server runs the hub.
    func abort(_ connectionID: String? = nil) async throws {
        let target = connectionID.map { "abort?id=\($0)" } ?? "abort"
        try await eventually { try await self.control(target)["aborted"]?.int ?? 0 > 0 }
    }

    /// Has the server refuse an access token from now on.
    ///
    /// The server keeps refused tokens in a set that several threads change without a lock, so that one of two may get lost.
    func revoke(_ token: String) async throws {
        var negotiation = HTTPRequest("POST", self.endpoint("/auth/negotiate?negotiateVersion=1"))
        negotiation.headers["Authorization"] = "Bearer \(token)"
        try await eventually("a refused token") {
            try await self.control("revoke?token=\(token)")
            return try await Transports.standard.http.send(negotiation).head.status == 401
        }
    }

    func client(_ path: String, _ pair: HubPair = .json, _ configure: (inout HubConfiguration) -> Void = { _ in }) -> HubClient {
        var options = HubConfiguration(self.endpoint(path), transports: .standard)
        options.format = pair.format
        options.allowedTransports = HubTransportKinds(pair.transport)
        options.log = .none
        options.callTimeLimit = .seconds(120)
        configure(&options)
        return HubClient(options)
    }

    /// Starts a client, and once more if a time limit of the server has expired meanwhile, because other tests occupy the processor: 15 seconds
    /// from the negotiation to the connection, and one second for the handshake at `/strict`. The server forgets the requests of the first start.
    func start(_ start: () async throws -> Void) async throws {
        for _ in 0..<10 {
            do {
                return try await start()
            } catch {
                let reason = "\(error)"
                guard ["No Connection with that ID", "Handshake was canceled"].contains(where: { reason.contains($0) }) else { throw error }
                try await self.control("requests?clear=true", "GET")
            }
        }
        try await start()
    }

    /// Returns a client that is connected.
    func connected(
        _ path: String, _ pair: HubPair = .json, _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws -> HubClient {
        let client = self.client(path, pair, configure)
        try await self.start { try await client.start() }
        return client
    }

    /// Returns a client whose token expires during the connection, and the error with which it has ended.
    ///
    /// A token lives for seconds from the negotiation. One that has expired before the client was connected is followed by one that lives for
    /// longer.
    func expired(_ pair: HubPair, user: String) async throws -> (client: HubClient, error: HubError?) {
        for lifetime in [2, 4, 8, 16, 32] {
            let client = self.client("/auth", pair) { $0.accessToken = { "token-\(user)\(lifetime)-\(lifetime)" } }
            let updates = client.updates()
            do {
                try await self.start { try await client.start() }
            } catch {
                guard let error = error as? HubError, error.code == .unauthorized else { throw error }
                continue
            }
            let end = await updates.first { if case .closed = $0 { true } else { false } }
            if case .closed(let error)? = end { return (client, error) }
        }
        throw Peer.Failure(description: "no client is connected before its token expires")
    }

    /// A connection with the API of signalr-client-swift to `/test`.
    func hubConnection(_ pair: HubPair) -> HubConnection {
        let transport: HttpTransportType =
            switch pair.transport {
            case .webSockets: .webSockets
            case .serverSentEvents: .serverSentEvents
            case .longPolling: .longPolling
            }
        return HubConnectionBuilder()
            .withUrl(url: "http://127.0.0.1:\(self.port)/test", transport: transport)
            .withHubProtocol(hubProtocol: pair.format == .json ? .json : .messagePack)
            .withLogLevel(logLevel: .error)
            .build()
    }

    /// Returns such a connection that is started.
    func startedConnection(_ pair: HubPair) async throws -> HubConnection {
        let connection = self.hubConnection(pair)
        try await self.start { try await connection.start() }
        return connection
    }
}

/// Returns the error that a closure throws.
@discardableResult
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
