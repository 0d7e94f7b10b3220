import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// Handles what a listener accepts: requests for the specification and for information, and the WebSockets of clients.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class PrimusServerHandler: ListenerHandler {
    private let configuration: PrimusServerConfiguration
    private let connections: ServedConnections<PrimusServerMachine>
    private let time: any TimeSource
    private let state = Lock(PrimusServerFaults())
    /// Makes the random number in the information of SockJS.
    private let entropy: Lock<RandomSource>

    /// - Parameter seed: The seed of that number; `nil` to take it from the system's random numbers.
    init(
        _ configuration: PrimusServerConfiguration, _ connections: ServedConnections<PrimusServerMachine>, time: any TimeSource,
        seed: UInt64?
    ) {
        (self.configuration, self.connections, self.time) = (configuration, connections, time)
        self.entropy = Lock(RandomSource(seed: seed))
    }

    var faults: PrimusServerFaults {
        get { self.state.withLock { $0 } }
        set {
            self.state.withLock { $0 = newValue }
            self.connections.setFaults(newValue.connections) { $0.stopsPings = newValue.stopsPings }
        }
    }

    /// The part of a path after the server's; `nil` for another path.
    private func rest(of request: HTTPRequestHead) -> Substring? {
        let (path, prefix) = (request.path, self.configuration.pathname)
        guard path.utf8.starts(with: prefix.utf8) else { return nil }
        return path.dropFirst(prefix.count)
    }

    // MARK: Requests

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if self.connections.isShutDown { return responder.respond(Self.stopped) }
        guard let rest = self.rest(of: request) else {
            return responder.respond(Self.text(404, "There is no server of Primus at this path."))
        }
        let origin = request.headers["Origin"]
        func respond(_ response: HTTPResponse) { responder.respond(Self.allowing(origin, response)) }
        if request.method == "OPTIONS", origin != nil { return responder.respond(Self.preflight(origin)) }
        if rest == "/spec" {
            if let status = self.faults.specStatus { return respond(Self.text(status, "The server refuses to publish its specification.")) }
            return respond(Self.json(200, self.configuration.spec.json))
        }
        let decision = self.authorize(request) { rejection in
            responder.respond(Self.allowing(origin, rejection ?? self.response(to: request, rest)))
        }
        if let decision { responder.onDisconnect { decision.cancel() } }
    }

    /// The response to an authorized request that isn't a WebSocket.
    private func response(to request: HTTPRequestHead, _ rest: Substring) -> HTTPResponse {
        switch self.configuration.transformer {
        case .sockjs:
            switch rest {
            case "", "/": return Self.text(200, "Welcome to SockJS!\n", type: "text/plain; charset=UTF-8")
            case "/info":
                let entropy = self.entropy.withLock { UInt32.random(in: 0...UInt32.max, using: &$0) }
                return Self.json(200, SockJSInfo(entropy: entropy).json, type: "application/json; charset=UTF-8")
            default: return Self.text(404, "404 Error: Page not found\n")
            }
        case .engineIO: return Self.refusal(.unknownTransport)
        default: return Self.text(426, "Upgrade Required")
        }
    }

    // MARK: WebSockets

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.connections.isShutDown { return .reject(Self.stopped) }
        guard let rest = self.rest(of: request) else { return .reject(Self.text(404, "There is no server of Primus at this path.")) }
        return .later { responder in
            let decision = self.authorize(request) { rejection in
                if let rejection { return responder.reject(rejection) }
                switch self.framing(of: request, rest) {
                case .success: responder.accept()
                case .failure(let refusal): responder.reject(refusal.response)
                }
            }
            if let decision { responder.onCancel { decision.cancel() } }
        }
    }

    private struct Refusal: Error {
        let response: HTTPResponse
    }

    /// The framing of a WebSocket at a path.
    private func framing(of request: HTTPRequestHead, _ rest: Substring) -> Result<PrimusFraming, Refusal> {
        switch self.configuration.transformer {
        case .sockjs:
            let parts = rest.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            if parts.elementsEqual(["websocket"]) { return .success(.plain) }
            let isSession = parts.count == 3 && parts.last == "websocket" && parts.allSatisfy { !$0.isEmpty && !$0.contains(".") }
            return isSession ? .success(.sockJS(.server)) : .failure(Refusal(response: Self.text(404, "404 Error: Page not found\n")))
        case .engineIO:
            let fields = PercentEncoding.fields(request.query) ?? []
            func field(_ name: String) -> String? { fields.first { $0.name.utf8.elementsEqual(name.utf8) }?.value }
            guard field("transport") == "websocket" else { return .failure(Refusal(response: Self.refusal(.unknownTransport))) }
            guard field("sid") == nil else { return .failure(Refusal(response: Self.refusal(.unknownSession))) }
            // As the original, a server that speaks version 4 takes every version but 3 for 4 only if it allows 3.
            let version = field("EIO").flatMap { Int($0) }
            if self.configuration.version == .v6 { return .success(.engineIO(.v3, .server)) }
            if version == 4 { return .success(.engineIO(.v4, .server)) }
            return self.configuration.allowsEIO3
                ? .success(.engineIO(.v3, .server)) : .failure(Refusal(response: Self.refusal(.unsupportedVersion)))
        default: return .success(.plain)
        }
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.connections.adopt(connection, id: id) { machine, _, _ in
            guard let rest = self.rest(of: request), case .success(let framing) = self.framing(of: request, rest) else { return }
            machine.accepted(id, framing, request)
        }
    }

    func messageLimit(for request: HTTPRequestHead) -> Int? { self.configuration.messageLimit }

    // MARK: Authorization

    /// Decides about a request.
    ///
    /// - Parameter decided: Receives the response to a client that may not proceed, or `nil`.
    /// - Returns: The running decision, or `nil` if there is none to cancel.
    private func authorize(
        _ request: HTTPRequestHead, _ decided: @escaping @Sendable (HTTPResponse?) -> Void
    ) -> PendingDecision<PrimusAuthorizationDecision>? {
        if let status = self.faults.refusalStatus {
            decided(self.rejection(.reject("The server is configured to reject clients.", status: status)))
            return nil
        }
        var isFull = false
        self.connections.driver.step { machine, _, _ in isFull = machine.isFull }
        if isFull {
            decided(self.rejection(.reject("The server has as many clients as it accepts.", status: 503)))
            return nil
        }
        guard let authorize = self.configuration.authorize else {
            decided(nil)
            return nil
        }
        let decision = PendingDecision<PrimusAuthorizationDecision> { decided(self.rejection($0)) }
        let late = PrimusAuthorizationDecision.reject("The server didn't decide in time.", status: 503)
        decision.begin(within: self.configuration.authorizationTimeout, of: self.time, orElse: late) { await authorize(request) }
        return decision
    }

    /// The response of a decision; `nil` if the client may proceed.
    private func rejection(_ decision: PrimusAuthorizationDecision) -> HTTPResponse? {
        let response: HTTPResponse
        switch decision {
        case .accept:
            // The server may have been released while the application decided.
            return self.connections.isShutDown ? Self.stopped : nil
        case .reject(let message, let status, let headers):
            var rejection = Self.json(status, ["error": .string(message)])
            for field in headers { rejection.head.headers.add(field.name, field.value) }
            response = rejection
        case .respond(let custom): response = custom
        }
        self.connections.driver.step { machine, _, effects in
            machine.deliver(PrimusServerEvent.rejected(status: response.head.status), &effects)
        }
        return response
    }

    // MARK: Responses

    static let stopped = PrimusServerHandler.text(503, "The server has stopped.")

    private static func text(_ status: Int, _ text: String, type: String = "text/plain") -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": type], text: text)
    }

    private static func json(_ status: Int, _ body: JSONValue, type: String = "application/json") -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: status, headers: ["Content-Type": type]), body: body.bytes)
    }

    private static func refusal(_ refusal: EngineIOError.Refusal) -> HTTPResponse { self.json(refusal.status, refusal.json) }

    /// Adds the header fields with which Primus allows pages of any origin.
    private static func allowing(_ origin: String?, _ response: HTTPResponse) -> HTTPResponse {
        guard let origin else { return response }
        var response = response
        response.head.headers["Access-Control-Allow-Origin"] = origin
        response.head.headers["Access-Control-Allow-Credentials"] = "true"
        response.head.headers["Vary"] = "Origin"
        return response
    }

    private static func preflight(_ origin: String?) -> HTTPResponse {
        var response = HTTPResponse(HTTPResponseHead(status: 200), body: [])
        response.head.headers["Access-Control-Max-Age"] = "2592000"
        response.head.headers["Access-Control-Allow-Methods"] = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
        return self.allowing(origin, response)
    }
}
