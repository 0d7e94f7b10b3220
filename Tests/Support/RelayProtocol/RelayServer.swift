package import RealtimeCore
import RealtimeSystem

/// A server of the relay protocol, for all kinds of connections.
///
/// A client that moves from polling to a WebSocket has two connections for a while.
package final class RelayServer: ListenerHandler {
    /// The kinds that the server offers.
    private let offered: [RelaySession.Kind]
    /// Whether the server accepts the WebSockets that it offers.
    private let acceptsSockets: Bool
    private let driver: SessionDriver<RelayServerMachine>
    /// The connections over HTTP requests, by token.
    private let overHTTP = Lock<[String: any RelayHTTPConnection]>([:])
    private let lastToken = Lock(0)

    package init(
        offering offered: [RelaySession.Kind] = [.socket, .polling], acceptsSockets: Bool = true, time: any TimeSource
    ) {
        self.offered = offered
        self.acceptsSockets = acceptsSockets
        self.driver = SessionDriver(RelayServerMachine(), in: .init(time: time, log: .none, subsystem: "relay-server"))
    }

    deinit { self.driver.shutDown() }

    /// Sends a line to all clients.
    package func broadcast(_ line: String) { self.driver.step { machine, _, effects in machine.broadcast(line, &effects) } }

    /// Makes the server ignore all messages from now on.
    package func stopAnswering() { self.driver.step { machine, _, _ in machine.isAnswering = false } }

    package var connectionCount: Int { self.driver.read { $0.connections.count } }

    // MARK: Listening

    package func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        let token = self.token(request)
        switch request.path.split(separator: "/").last {
        case "negotiate":
            let token = self.lastToken.withLock { last in
                last += 1
                return "t\(last)"
            }
            responder.respond(HTTPResponse(status: 200, text: ([token] + self.offered.map(\.rawValue)).joined(separator: " ")))
        case "poll": self.pollingConnection(token)?.poll(responder) ?? responder.respond(HTTPResponse(status: 409))
        case "stream": self.stream(token, responder)
        case "send":
            guard let connection = self.overHTTP.withLock({ $0[token] }) else { return responder.respond(HTTPResponse(status: 404)) }
            let lines = String(decoding: body, as: UTF8.self).split(separator: "\n").map(String.init)
            responder.respond(HTTPResponse(status: 200))
            let messages = lines.filter { $0 != "close" }.map { WebSocketMessage.text($0) }
            if !messages.isEmpty { self.driver.received(connection.id, MessageBatch(messages)) }
            if lines.contains("close") { self.end(connection, token, .peer(.normal, "")) }
        default: responder.respond(HTTPResponse(status: 404))
        }
    }

    package func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        let isAccepted = self.acceptsSockets && !self.token(request).isEmpty
        // Decided later, as a server does that looks the token up.
        return .later { responder in
            if isAccepted {
                responder.accept(headers: ["Relay-Kind": "socket"])
            } else {
                responder.reject(HTTPResponse(status: 403, text: "sockets are disabled"))
            }
        }
    }

    package func accepted(
        _ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead
    ) -> any WebSocketEvents {
        let token = self.token(request)
        self.driver.adopt(connection, id: id) { machine, _, _ in machine.connections[id] = token }
        return self.driver
    }

    private func token(_ request: HTTPRequestHead) -> String {
        request.query.split(separator: "&").first { $0.hasPrefix("token=") }.map { String($0.dropFirst(6)) } ?? ""
    }

    /// Returns the connection of a client that polls, or `nil` if it has a stream.
    private func pollingConnection(_ token: String) -> PollingServerConnection? {
        let (known, isNew) = self.overHTTP.withLock { connections -> ((any RelayHTTPConnection)?, Bool) in
            if let connection = connections[token] { return (connection, false) }
            let connection = PollingServerConnection(.nextAccepted())
            connections[token] = connection
            return (connection, true)
        }
        guard let connection = known as? PollingServerConnection else { return nil }
        if isNew { self.begin(connection, token) }
        return connection
    }

    /// Begins a connection with a stream. A client, or an intermediary, that repeats its request receives the messages from then on.
    private func stream(_ token: String, _ responder: any HTTPResponder) {
        let connection = StreamServerConnection(.nextAccepted(), responder)
        if let replaced = self.overHTTP.withLock({ $0[token] }) { self.end(replaced, token, .requested) }
        self.overHTTP.withLock { $0[token] = connection }
        responder.begin(HTTPResponseHead(status: 200))
        responder.onWriting { [weak self] in self?.driver.writing(connection.id, paused: $0) }
        self.begin(connection, token)
        responder.onDisconnect { [weak self] in
            self?.end(connection, token, .transport(TransportError(.closed, "The client disconnected.")))
        }
    }

    private func begin(_ connection: any RelayHTTPConnection, _ token: String) {
        self.driver.adopt(connection, id: connection.id) { machine, _, _ in machine.connections[connection.id] = token }
        self.driver.opened(connection.id, head: HTTPResponseHead(status: 200))
    }

    private func end(_ connection: any RelayHTTPConnection, _ token: String, _ reason: CloseReason) {
        let isCurrent = self.overHTTP.withLock { connections in
            guard connections[token]?.id == connection.id else { return false }
            connections[token] = nil
            return true
        }
        guard isCurrent else { return }
        connection.abandon()
        self.driver.closed(connection.id, reason)
    }
}

/// The connections of a relay server, with the tokens of their clients.
struct RelayServerMachine: SessionMachine {
    typealias Event = Never
    typealias WaiterResult = Never
    enum Failure: Error { case cancelled }
    typealias Request = Never
    typealias Work = Never
    typealias WorkResult = Never

    var connections: [ConnectionID: String] = [:]
    var isAnswering = true
    /// The number of items of each upload, by token and name.
    private var items: [String: Int] = [:]

    var nextDeadline: Instant? { nil }
    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after: WaitLimit) -> Failure { .cancelled }

    mutating func start(now: Instant, _ effects: inout Effects<Self>) {}
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connections.keys.sorted() { effects.commands.append(.close(id, .goingAway, reason: "")) }
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        // A client that moves is known already.
        guard let token = self.connections[id], self.connections.values.filter({ $0 == token }).count == 1 else { return }
        effects.commands.append(.send(id, .text("hello")))
    }

    func broadcast(_ line: String, _ effects: inout Effects<Self>) {
        for id in self.connections.keys.sorted() { effects.commands.append(.send(id, .text(line))) }
    }

    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard self.isAnswering, let token = self.connections[id] else { return }
        for message in batch.messages {
            let words = String(decoding: message.bytes, as: UTF8.self).split(separator: " ", maxSplits: 2).map(String.init)
            switch (words.first, words.count) {
            case ("move", 1): effects.commands.append(.send(id, .text("moved")))
            case ("item", 3): self.items["\(token) \(words[1])", default: 0] += 1
            case ("end", 2):
                let count = self.items.removeValue(forKey: "\(token) \(words[1])") ?? 0
                effects.commands.append(.send(id, .text("= \(words[1]) \(count)")))
            default: break
            }
        }
    }

    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        self.connections[id] = nil
    }

    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}
    mutating func workFinished(_ id: WorkID, _ result: Never, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {}
    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}
}

/// The server's side of a connection over HTTP requests.
private protocol RelayHTTPConnection: WebSocketConnection {
    var id: ConnectionID { get }
}

/// The server's side of a connection with a stream.
private final class StreamServerConnection: RelayHTTPConnection {
    let id: ConnectionID
    private let responder: any HTTPResponder
    private let output = Lock<[String]>([])

    init(_ id: ConnectionID, _ responder: any HTTPResponder) {
        (self.id, self.responder) = (id, responder)
    }

    func open() {}
    func enqueue(_ message: WebSocketMessage) {
        self.output.withLock { $0.append(String(decoding: message.bytes, as: UTF8.self)) }
    }

    func flush() {
        let lines = self.output.withLock { output in
            defer { output = [] }
            return output
        }
        if !lines.isEmpty { self.responder.write(Array(lines.map { "\($0)\n" }.joined().utf8)) }
    }

    func pauseReading() {}
    func resumeReading() {}

    func close(_ code: CloseCode, reason: String) {
        self.output.withLock { $0.append("close") }
        self.flush()
        self.responder.end()
    }

    func abandon() { self.responder.end() }
}

/// The server's side of a connection with polling.
private final class PollingServerConnection: RelayHTTPConnection {
    private struct State: Sendable {
        var output: [String] = []
        var isFlushed = false
        var responder: (any HTTPResponder)?
    }

    let id: ConnectionID
    private let state = Lock(State())

    init(_ id: ConnectionID) {
        self.id = id
    }

    /// Responds to a request as soon as there are messages. The first request is answered immediately, since it opens the connection.
    func poll(_ responder: any HTTPResponder) {
        let replaced = self.state.withLock { state in
            defer { state.responder = responder }
            return state.responder
        }
        replaced?.respond(HTTPResponse(status: 200))
        self.flush()
    }

    func open() {}
    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { $0.output.append(String(decoding: message.bytes, as: UTF8.self)) }
    }

    func flush() {
        let (responder, lines) = self.state.withLock { state -> ((any HTTPResponder)?, [String]) in
            guard !state.output.isEmpty, let responder = state.responder.take() else { return (nil, []) }
            defer { state.output = [] }
            return (responder, state.output)
        }
        responder?.respond(HTTPResponse(status: 200, text: lines.joined(separator: "\n")))
    }

    func pauseReading() {}
    func resumeReading() {}

    func close(_ code: CloseCode, reason: String) {
        self.state.withLock { $0.output.append("close") }
        self.flush()
    }

    func abandon() {
        let responder = self.state.withLock { $0.responder.take() }
        responder?.respond(HTTPResponse(status: 410))
    }
}
