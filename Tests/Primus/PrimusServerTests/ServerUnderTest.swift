import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport

/// A server in memory, and clients whose bytes a test chooses.
struct ServerUnderTest {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let server: PrimusServer
    let address: ListenerAddress

    init(_ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) async throws {
        var configuration = PrimusServerConfiguration()
        configure(&configuration)
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = PrimusServer(network: self.network, configuration: configuration, log: .none)
        self.address = try await self.server.start(on: self.network.listener())
    }

    func client(_ target: String = "/primus", headers: HTTPHeaders = [:]) -> RawClient {
        RawClient(self.network.transports().webSocket, self.address, target, headers)
    }

    func request(
        _ target: String, method: String = "GET", headers: HTTPHeaders = [:], body: String = ""
    ) async throws -> HTTPResponse {
        let endpoint = Endpoint(scheme: "http", host: self.address.host, port: self.address.port, target: target)
        return try await self.network.transports().http.send(HTTPRequest(method, endpoint, headers: headers, body: Array(body.utf8)))
    }
}

/// A client that records what it receives as lines.
struct RawClient {
    let socket: RawSocket
    private let received: EventRecorder<WebSocketMessage>

    init(_ transport: any WebSocketTransport, _ address: ListenerAddress, _ target: String, _ headers: HTTPHeaders) {
        let received = EventRecorder<WebSocketMessage>()
        self.received = received
        self.socket = RawSocket(transport, address, target, headers: headers) { received.record($0) }
    }

    func send(_ texts: String...) { self.socket.send(texts.map { .text($0) }) }

    /// The messages that have arrived, with binary messages in hexadecimal.
    var lines: [String] {
        self.received.all.map { message in
            switch message.kind {
            case .text: String(decoding: message.bytes, as: UTF8.self)
            case .binary: "binary " + message.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            case .ping: "ping frame"
            case .pong: "pong frame"
            }
        }
    }

    var end: CloseReason? { self.socket.endings.all.first }
}
