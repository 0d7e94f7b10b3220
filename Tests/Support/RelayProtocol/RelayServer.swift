package import RealtimeCore
import RealtimeSystem

/// A server of the relay protocol, for all kinds of connections.
///
/// A client that moves from polling to a WebSocket has two connections for a while.
package final class RelayServer: ListenerHandler {
    private typealias Connection = ServedHTTPMessages<RelayServedRules>

    /// The kinds that the server offers.
    private let offered: [RelaySession.Kind]
    /// Whether the server accepts the WebSockets that it offers.
    private let acceptsSockets: Bool
    /// Header fields of streams, for example for an intermediary.
    private let streamHeaders: HTTPHeaders
    private let driver: SessionDriver<RelayServerMachine>
    /// The connections over HTTP requests, by token.
    private let overHTTP = Lock<[String: Connection]>([:])
    private let polledTokens = Lock<Set<String>>([])
    private let time: any TimeSource
    private let lastToken = Lock(0)

    package init(
        offering offered: [RelaySession.Kind] = [.socket, .polling], acceptsSockets: Bool = true, streamHeaders: HTTPHeaders = [:],
        time: any TimeSource
    ) {
        self.offered = offered
        self.acceptsSockets = acceptsSockets
        self.streamHeaders = streamHeaders
        self.time = time
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
        case "poll":
            // A client whose connection has ended must begin a new one: it would miss what was sent in the meantime.
            let isFirst = self.polledTokens.withLock { $0.insert(token).inserted }
            guard let connection = isFirst ? self.begin(token, isStream: false) : self.connection(token) else {
                return responder.respond(HTTPResponse(status: 410))
            }
            connection.wait(request, responder)
        case "stream":
            // A client, or an intermediary, that repeats its request receives the messages of a new connection.
            if let replaced = self.connection(token) { self.end(replaced, token, .requested) }
            self.begin(token, isStream: true).wait(request, responder)
        case "send":
            guard let connection = self.connection(token) else { return responder.respond(HTTPResponse(status: 404)) }
            connection.receive(request, body: body, responder)
        default: responder.respond(HTTPResponse(status: 404))
        }
    }

    package func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        let token = self.token(request)
        let acceptor = self.acceptsSockets && !token.isEmpty ? Acceptor(driver: self.driver, token: token) : nil
        // Decided later, as a server does that looks the token up.
        return .later { responder in
            if let acceptor {
                responder.accept(headers: ["Relay-Kind": "socket"], to: acceptor)
            } else {
                responder.reject(HTTPResponse(status: 403, text: "sockets are disabled"))
            }
        }
    }

    private struct Acceptor: UpgradeAcceptor {
        let driver: SessionDriver<RelayServerMachine>
        let token: String

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
            self.driver.adopt(connection, id: id) { machine, _, _ in machine.connections[id] = self.token }
            return self.driver
        }
    }

    private func token(_ request: HTTPRequestHead) -> String {
        request.query.split(separator: "&").first { $0.hasPrefix("token=") }.map { String($0.dropFirst(6)) } ?? ""
    }

    private func connection(_ token: String) -> Connection? { self.overHTTP.withLock { $0[token] } }

    private func begin(_ token: String, isStream: Bool) -> Connection {
        let rules = RelayServedRules(isStream: isStream, streamHeaders: self.streamHeaders)
        let connection = Connection(rules, time: self.time) { [weak self] id in
            self?.overHTTP.withLock { if $0[token]?.id == id { $0[token] = nil } }
        }
        self.overHTTP.withLock { $0[token] = connection }
        self.driver.adopt(connection, id: connection.id) { machine, _, _ in machine.connections[connection.id] = token }
        connection.start(self.driver)
        return connection
    }

    private func end(_ connection: Connection, _ token: String, _ reason: CloseReason) {
        connection.abandon()
        self.driver.closed(connection.id, reason)
    }
}

/// The server's rules of a connection over HTTP.
private struct RelayServedRules: ServedHTTPMessagesRules {
    let isStream: Bool
    let streamHeaders: HTTPHeaders
    var orphanTimeout: Duration { self.isStream ? .zero : .seconds(120) }
    var pollTimeout: Duration? { nil }
    var streamLimit: Int? { nil }

    func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer {
        self.isStream ? .stream(HTTPResponseHead(status: 200, headers: self.streamHeaders), first: []) : .poll
    }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest { .replaces }

    func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int {
        for message in messages {
            body.append(message: message.bytes)
            body.append(UInt8(ascii: "\n"))
        }
        return messages.count
    }

    func head(of body: SharedBody) -> HTTPResponseHead { HTTPResponseHead(status: 200) }

    func ending(_ code: CloseCode, reason: String) -> HTTPResponse { HTTPResponse(status: 200, text: "close\n") }

    func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) -> (answer: HTTPResponse, end: CloseReason?) {
        let lines = String(decoding: body, as: UTF8.self).split(separator: "\n")
        for line in lines where line != "close" { batch.append(.text, line.utf8) }
        return (HTTPResponse(status: 200), lines.contains("close") ? .peer(.normal, "") : nil)
    }

    func rejection(_ error: TransportError?) -> HTTPResponse { HTTPResponse(status: 410) }
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
