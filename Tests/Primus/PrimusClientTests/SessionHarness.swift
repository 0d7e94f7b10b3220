import PrimusClient
import PrimusWire
import RealtimeCore
import TestSupport

/// A session without a driver, a server and a clock.
struct SessionHarness: TextHarness {
    enum Observed { case traces, updates, both }

    var trial: MachineTrial<PrimusSession>

    /// - Parameter observed: The events that are among the lines.
    init(_ observed: Observed = .traces, seed: UInt64 = 1, _ change: (inout PrimusConfiguration) -> Void = { _ in }) {
        var options = Self.options
        change(&options)
        self.trial = MachineTrial(PrimusSession(options, epoch: InMemoryNetwork.epoch, seed: seed)) { session, consumer, effects in
            if observed != .updates { session.observeTraces(consumer, &effects) }
            if observed != .traces { session.observeUpdates(consumer, &effects) }
            session.observeMessages(consumer, &effects)
        }
    }

    /// Without detection, and with fixed delays.
    static var options: PrimusConfiguration {
        var options = PrimusConfiguration(Endpoint(scheme: "http", host: "host", port: 80))
        options.detection = .off
        options.retry = .delays([.seconds(1), .seconds(2)])
        return options
    }

    func text(of request: PrimusRequest) -> String { "\(request.endpoint.origin)\(request.endpoint.target)" }

    func text(of work: PrimusSession.Work, _ id: WorkID) -> String {
        switch work {
        case .prepare: "\(id.rawValue) prepare"
        case .request(let request): "\(id.rawValue) \(request.method) \(request.endpoint.origin)\(request.endpoint.target)"
        case .retryDelay(_, let context): "\(id.rawValue) ask \(context.retryCount)"
        }
    }

    func text(of failure: PrimusError) -> String { "\(failure.code)" }

    func text(of result: PrimusSession.WaiterResult) -> String {
        switch result {
        case .none: ""
        case .opened(let id): "opened \(id ?? "-")"
        case .sparkID(let id): "id \(id)"
        default: "\(result)"
        }
    }

    func text(of event: PrimusEvent) -> String {
        switch event {
        case .trace(let trace): self.text(of: trace)
        case .update(let update): self.text(of: update)
        case .message(let message): "data \(String(decoding: message.raw.bytes, as: UTF8.self))"
        default: ""
        }
    }

    private func text(of trace: PrimusTrace) -> String {
        switch trace {
        case .outgoingOpen: "[outgoing::open]"
        case .outgoingReconnect: "[outgoing::reconnect]"
        case .outgoingEnd: "[outgoing::end]"
        case .incomingOpen: "[incoming::open]"
        case .incomingEnd: "[incoming::end]"
        case .outgoingURL: "[outgoing::url]"
        case .incomingError: "[incoming::error]"
        case .incomingPing(let text): "[incoming::ping \(text)]"
        case .outgoingPong(let text): "[outgoing::pong \(text)]"
        case .incomingPong(let text): "[incoming::pong \(text)]"
        case .outgoingPing(let text): "[outgoing::ping \(text)]"
        case .incomingID(let text): "[incoming::id \(text)]"
        case .outgoingData: "[outgoing::data]"
        case .incomingData: "[incoming::data]"
        case .readyStateChange(let state): "readyStateChange \(state)"
        case .open: "open"
        case .close: "close"
        case .end: "end"
        case .error: "error"
        case .reconnectScheduled(let retry): "reconnect scheduled \(retry.attempt)"
        case .reconnect(let retry): "reconnect \(retry.attempt)"
        case .reconnected(let retry): "reconnected \(retry.attempt)"
        case .reconnectTimeout: "reconnect timeout"
        case .reconnectFailed: "reconnect failed"
        case .timeout: "timeout"
        case .online: "online"
        case .offline: "offline"
        }
    }

    private func text(of update: PrimusUpdate) -> String {
        switch update {
        case .state(.closed(let error)): "state closed \(error.map { "\($0.code)" } ?? "-")"
        case .state(.reconnecting(let error)): "state reconnecting \(error.code)"
        case .state(let state): "state \(state)"
        case .dialect(let dialect): "dialect \(dialect.transformer) \(dialect.parser)"
        case .reconnecting(let error): "reconnecting \(error.code)"
        case .attemptFailed(let error): "attemptFailed \(error.code)"
        case .reconnectScheduled(let retry): "scheduled \(retry.attempt)"
        case .connectingIn(let delay): "connectingIn \(delay)"
        case .reconnect(let retry): "reconnect \(retry.attempt)"
        case .reconnected(let retry): "reconnected \(retry.attempt)"
        case .connectTimedOut: "connectTimedOut"
        case .reconnectFailed: "reconnectFailed"
        case .transport(let transport): "transport \(transport)"
        case .latency(let latency): "latency \(latency)"
        case .sparkID(let id): "sparkID \(id)"
        case .ended(let error): "ended \(error.map { "\($0.code)" } ?? "-")"
        case .error(let error): "error \(error.code)"
        case .online: "online"
        case .offline: "offline"
        }
    }

    /// The request of a WebSocket that is opened next.
    var webSocketRequest: WebSocketRequest? {
        if case .webSocket(let request) = self.machine.request.connection { request } else { nil }
    }

    // MARK: Inputs

    @discardableResult
    mutating func open() -> [String] { self.step { $0.open(now: $1, &$2) } }

    /// A connection is open. The server answers the ping of one on which it doesn't speak first.
    @discardableResult
    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead = HTTPResponseHead(status: 101)) -> [String] {
        let lines = self.accepted(id, head: head)
        guard let index = lines.firstIndex(of: "#\(id.rawValue) ping") else { return lines }
        return lines[..<index] + self.received(id, [TransportMessage(.pong, [])]) + lines[(index + 1)...]
    }

    /// A connection is open, and the server says nothing.
    @discardableResult
    mutating func accepted(_ id: ConnectionID, head: HTTPResponseHead = HTTPResponseHead(status: 101)) -> [String] {
        self.step { $0.opened(id, head: head, now: $1, &$2) }
    }

    /// Opens the client, and establishes the connection.
    mutating func establish() {
        self.open()
        self.opened(self.connection)
        _ = self.takeEvents()
    }

    @discardableResult
    mutating func write(_ value: PrimusValue, _ mode: PrimusWriteMode = .queue, waiter: UInt64? = nil) -> [String] {
        self.step { session, now, effects in
            session.write(.value(value), mode, waiter.map { WaiterID(rawValue: $0) }, now: now, &effects)
        }
    }

    @discardableResult
    mutating func respond(_ work: UInt64, _ status: Int, _ body: String = "", headers: HTTPHeaders = [:]) -> [String] {
        let response = HTTPResponse(HTTPResponseHead(status: status, headers: headers), body: Array(body.utf8))
        return self.finish(work, .response(.success(response)))
    }

    /// The server refuses the upgrade.
    @discardableResult
    mutating func refuse(_ status: Int, _ body: String = "") -> [String] {
        let response = HTTPResponse(HTTPResponseHead(status: status), body: Array(body.utf8))
        return self.close(
            .transport(TransportError(.upgradeRejected, "The server answered with the status \(status).", response: response)))
    }
}

let drop = CloseReason.transport(TransportError(.reset, "The connection was reset."))
let refused = CloseReason.transport(TransportError(.refused, "No server listens."))
