import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import SignalRWire

/// The connections to the hub of the load generator over Server-Sent Events and long polling, by their tokens.
final class LoadHubRequests: Sendable {
    typealias Place = (connection: LoadConnection, stream: SocketStream)

    private struct Connection: Sendable {
        let transport: HubTransport
        var hub: LoadHub
        /// The stream of events, or the poll that waits.
        var place: Place?
        /// The body of the next poll.
        var output: [UInt8] = []
        /// The items of the polls after it, with ``LoadHTTP/messagesPerPoll`` items each.
        var items: LoadHub.Items?

        init(_ transport: HubTransport, _ place: Place?) {
            (self.transport, self.hub, self.place) = (transport, LoadHub(transport), place)
        }

        /// Returns the body for a poll, or `nil` if there is none yet.
        mutating func takeBody() -> [UInt8]? {
            if self.output.isEmpty, var items = self.items.take() {
                let count = min(items.count, LoadHTTP.messagesPerPoll)
                items.count -= count
                for _ in 0..<count { self.output += items.frame }
                if items.count > 0 { self.items = items } else { self.output += items.end }
            }
            defer { self.output = [] }
            return self.output.isEmpty ? nil : self.output
        }
    }

    private struct State: Sendable {
        var lastNumber = 0
        var connections: [String: Connection] = [:]
    }

    private let loop: EventLoop
    private let state = Lock(State())

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    /// Returns the answer to a request, which is empty for a poll that waits.
    func answer(_ request: HTTPRequestHead, _ body: [UInt8], _ place: Place) -> [UInt8] {
        let id = request.query.split(separator: "&").first { $0.hasPrefix("id=") }?.dropFirst("id=".count)
        return self.state.withLock { state in
            guard let token = id.map(String.init) else { return Self.negotiate(&state) }
            if request.method == "GET" { return Self.wait(request, token, place, &state) }
            guard var connection = state.connections.removeValue(forKey: token) else {
                return LoadHTTP.response([], status: "404 Not Found")
            }
            if request.method == "DELETE" {
                if let poll = connection.place { self.send(.init(end: LoadHTTP.response([], status: "204 No Content")), on: poll) }
                return LoadHTTP.response([], status: "202 Accepted")
            }
            self.receive(body, &connection)
            state.connections[token] = connection
            return LoadHTTP.response([])
        }
    }

    private static func negotiate(_ state: inout State) -> [UInt8] {
        state.lastNumber += 1
        let response = NegotiateResponse.Connection(
            id: "\(state.lastNumber)", secretToken: "\(state.lastNumber)", transports: HubTransport.allCases.map { HubTransportOffer($0) })
        return LoadHTTP.response(NegotiateResponse.connection(response).bytes, type: "application/json")
    }

    private static func wait(_ request: HTTPRequestHead, _ token: String, _ place: Place, _ state: inout State) -> [UInt8] {
        if request.headers.contains("Accept", token: "text/event-stream") {
            state.connections[token] = Connection(.serverSentEvents, place)
            return LoadHTTP.streamHead
        }
        guard state.connections[token] != nil else {
            // The first answer says that the connection is open.
            state.connections[token] = Connection(.longPolling, nil)
            return LoadHTTP.response([])
        }
        if let body = state.connections[token]?.takeBody() { return LoadHTTP.response(body) }
        state.connections[token]?.place = place
        return []
    }

    private func receive(_ body: [UInt8], _ connection: inout Connection) {
        var output: [UInt8] = []
        let items = connection.hub.receive(.binary(body), &output)
        guard connection.transport == .longPolling else {
            guard let stream = connection.place else { return }
            var burst = items.map { LoadConnection.Burst($0) } ?? .init()
            burst.end += output
            return self.send(burst, on: stream)
        }
        connection.output += output
        connection.items = items ?? connection.items
        guard let poll = connection.place, let body = connection.takeBody() else { return }
        connection.place = nil
        self.send(.init(end: LoadHTTP.response(body)), on: poll)
    }

    /// Sends on another connection than that of the current request.
    private func send(_ burst: LoadConnection.Burst, on place: Place) {
        self.loop.execute { place.connection.send(burst, place.stream) }
    }
}
