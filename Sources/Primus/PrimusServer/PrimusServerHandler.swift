import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// Handles what a listener accepts: requests for the specification and for information, and the WebSockets of clients.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class PrimusServerHandler: ListenerHandler {
    let configuration: PrimusServerConfiguration
    let connections: ServedConnections<PrimusServerMachine>
    let time: any TimeSource
    /// Receives what sessions over HTTP do.
    let trace: ConnectionTrace?
    private let state = Lock(PrimusServerFaults())
    /// Makes the random number in the information of SockJS.
    private let entropy: Lock<RandomSource>
    /// The sessions over HTTP: those of engine.io by the ID of the spark, and those of SockJS by the ID that the client chose.
    let sessions = Lock<[ByteString: any ServedRequests]>([:])
    let closedSessions = Lock(SockJSClosedSessions())
    let unreadSessions: Lock<UnreadSessions>
    /// The messages that wait for the clients of all sessions over HTTP.
    let sharedBacklog: SharedBacklog
    let encodings = SessionEncodings()
    /// Whether the server's own listener has a loopback address.
    private let isOnLoopback = Lock(false)
    private let refusedOrigins = Lock(RefusedOrigins())

    /// - Parameter seed: The seed of that number; `nil` to take it from the system's random numbers.
    init(
        _ configuration: PrimusServerConfiguration, _ connections: ServedConnections<PrimusServerMachine>, time: any TimeSource,
        seed: UInt64?, trace: ConnectionTrace?
    ) {
        (self.configuration, self.connections, self.time, self.trace) = (configuration, connections, time, trace)
        self.entropy = Lock(RandomSource(seed: seed))
        self.unreadSessions = Lock(UnreadSessions(limit: configuration.unreadSessionLimit))
        self.sharedBacklog = SharedBacklog(limit: configuration.totalBacklogLimit)
    }

    var faults: PrimusServerFaults {
        get { self.state.withLock { $0 } }
        set {
            self.state.withLock { $0 = newValue }
            self.connections.setFaults(newValue.connections) { $0.stopsPings = newValue.stopsPings }
        }
    }

    /// Whether the answer to a request with messages is lost. Counts the request.
    func losesAnswer() -> Bool { self.takesPlace(\.lostAnswers) }

    /// Whether a request for messages fails. Counts the request.
    func failsPoll() -> Bool { self.takesPlace(\.failedPolls) }

    private func takesPlace(_ count: WritableKeyPath<PrimusServerFaults, Int>) -> Bool {
        self.state.withLock { faults in
            guard faults[keyPath: count] > 0 else { return false }
            faults[keyPath: count] -= 1
            return true
        }
    }

    /// The part of a path after the server's; `nil` for another path.
    func rest(of request: HTTPRequestHead) -> Substring? {
        let (path, prefix) = (request.path, self.configuration.pathname)
        guard path.utf8.starts(with: prefix.utf8) else { return nil }
        let rest = path.dropFirst(prefix.count)
        // sockjs-node ignores a slash at the end, and Primus doesn't.
        let isOfSockJS = self.configuration.transformer == .sockjs && rest != "/spec/"
        return isOfSockJS && rest.utf8.last == UInt8(ascii: "/") ? rest.dropLast() : rest
    }

    // MARK: Requests

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if self.connections.isShutDown { return responder.respond(Self.stopped) }
        guard let rest = self.rest(of: request) else {
            return responder.respond(Self.text(404, "There is no server of Primus at this path."))
        }
        if let refusal = self.foreignRefusal(of: request) { return responder.respond(self.reporting(refusal)) }
        let origin = request.headers["Origin"]
        if let origin, let refusal = Self.refusal(of: origin, request) { return responder.respond(self.reporting(refusal)) }
        if request.method == "OPTIONS", origin != nil, request.headers["Access-Control-Request-Method"] != nil {
            return responder.respond(Self.preflight(request, origin))
        }
        let isSpec = rest == "/spec"
        let responder = CommonFieldsResponder(origin, isCached: isSpec, responder)
        if isSpec {
            if let status = self.faults.specStatus {
                return responder.respond(Self.text(status, "The server refuses to publish its specification."))
            }
            return responder.respond(Self.json(200, self.configuration.spec.json))
        }
        if self.sessionRequest(request, body, rest, responder) { return }
        self.authorize(request) { decision in
            responder.onDisconnect { decision.cancel() }
        } decided: {
            responder.respond($0 ?? self.response(to: request, rest))
        }
    }

    /// The response to an authorized request that isn't a WebSocket.
    private func response(to request: HTTPRequestHead, _ rest: Substring) -> HTTPResponse {
        switch self.configuration.transformer {
        case .sockjs:
            let last = rest.split(separator: "/", omittingEmptySubsequences: false).last
            switch rest {
            case "":
                guard request.method == "GET" else { return Self.notAllowed("GET") }
                return Self.text(200, "Welcome to SockJS!\n", type: "text/plain; charset=UTF-8")
            case "/info":
                if request.method == "OPTIONS" {
                    var response = Self.options("OPTIONS, GET")
                    response.head.headers["Set-Cookie"] = self.sockJSCookie(request)
                    return response
                }
                guard request.method == "GET" else { return Self.notAllowed("OPTIONS, GET") }
                let entropy = self.entropy.withLock { UInt32.random(in: 0...UInt32.max, using: &$0) }
                let info = SockJSInfo(
                    webSocket: self.configuration.allowsSockJSWebSockets, cookieNeeded: self.configuration.sessionCookie != nil,
                    entropy: entropy)
                return Self.json(200, info.json, type: "application/json; charset=UTF-8")
            default:
                guard last == "websocket", case .success = self.webSocket(of: request, rest) else { return Self.notFound }
                guard request.method == "GET" else { return Self.notAllowed("GET") }
                return HTTPResponse(status: 400, text: "Not a valid websocket request")
            }
        case .engineIO: return Self.refusal(request.field("transport") == "websocket" ? .badRequest : .unknownTransport)
        default: return Self.text(426, "Upgrade Required")
        }
    }

    // MARK: WebSockets

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.connections.isShutDown { return .reject(Self.stopped) }
        guard let rest = self.rest(of: request) else { return .reject(Self.text(404, "There is no server of Primus at this path.")) }
        if let refusal = self.foreignRefusal(of: request) { return .reject(self.reporting(refusal)) }
        return .later { responder in
            self.authorize(request, isOfSession: request.field("sid").map { self.engineIOSession($0) != nil } ?? false) { decision in
                responder.onCancel { decision.cancel() }
            } decided: { rejection in
                if let rejection { return responder.reject(rejection) }
                switch self.webSocket(of: request, rest) {
                case .success(let webSocket):
                    if case .client = webSocket, let rejection = self.reservePlace() { return responder.reject(rejection) }
                    responder.accept(to: Acceptor(handler: self, webSocket: webSocket, request: request))
                case .failure(.notFound): responder.reject(Self.notFound)
                // As the original, which answers to a WebSocket with the text alone.
                case .failure(.engineIO(let refusal)): responder.reject(Self.text(refusal.status, refusal.message, type: "text/html"))
                }
            }
        }
    }

    private enum Refusal: Error {
        case notFound
        case engineIO(EngineIOError.Refusal)
    }

    /// The purpose of a WebSocket.
    private enum WebSocket {
        case client(PrimusFraming)
        /// A session over polling that moves to it.
        case session(EngineIOServedSession, sid: String)
    }

    /// Returns the purpose of a WebSocket at a path.
    private func webSocket(of request: HTTPRequestHead, _ rest: Substring) -> Result<WebSocket, Refusal> {
        switch self.configuration.transformer {
        case .sockjs:
            let parts = rest.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            guard self.configuration.allowsSockJSWebSockets else { return .failure(.notFound) }
            if parts.elementsEqual(["websocket"]) { return .success(.client(.plain)) }
            let isSession = parts.count == 3 && parts.last == "websocket" && parts.allSatisfy { !$0.isEmpty && !$0.contains(".") }
            return isSession ? .success(.client(.sockJS(.server))) : .failure(.notFound)
        case .engineIO:
            guard request.field("transport") == "websocket" else {
                return .failure(.engineIO(.unknownTransport))
            }
            // An empty ID is none, as for the original.
            if let sid = request.field("sid"), !sid.isEmpty {
                guard let session = self.engineIOSession(sid) else { return .failure(.engineIO(.unknownSession)) }
                guard !self.faults.refusesUpgrades, self.configuration.allowsUpgrades else {
                    return .failure(.engineIO(.badRequest))
                }
                guard self.engineIOVersion(of: request) == session.version else {
                    return .failure(.engineIO(.badRequest))
                }
                return .success(.session(session, sid: sid))
            }
            guard let version = self.engineIOVersion(of: request) else {
                return .failure(.engineIO(.unsupportedVersion))
            }
            return .success(.client(.engineIO(version, .server)))
        default: return .success(.client(.plain))
        }
    }

    /// Takes the WebSocket of a client that has a place, or of a session.
    private struct Acceptor: UpgradeAcceptor {
        let handler: PrimusServerHandler
        let webSocket: WebSocket
        let request: HTTPRequestHead

        var messageLimit: Int? { self.handler.configuration.messageLimit }

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
            switch self.webSocket {
            case .client(let framing): return self.handler.adopt(connection, id: id, framing, self.request)
            case .session(let session, let sid):
                self.handler.unreadSessions.withLock { $0.remove(ByteString(sid)) }
                session.upgrade(connection, id: id)
                return session
            }
        }

        func abandoned() { if case .client = self.webSocket { self.handler.releasePlace() } }
    }

    private func adopt(
        _ connection: any MessageConnection, id: ConnectionID, _ framing: PrimusFraming, _ request: HTTPRequestHead
    ) -> any MessageEvents {
        guard case .sockJS = framing else {
            return self.connections.adopt(connection, id: id) { machine, _, _ in machine.accepted(id, framing, request) }
        }
        let divided = DividedConnection(connection, id, SockJSMessageDivider(), time: self.time)
        divided.start(self.connections.adopt(divided, id: id) { machine, _, _ in machine.accepted(id, framing, request) })
        return divided
    }

    /// Only a client of a session sends messages in requests.
    func bodyLimit(for request: HTTPRequestHead) -> Int? {
        guard let rest = self.rest(of: request), self.bringsMessages(request, rest) else { return bodyLimitWithoutMessages }
        let limit = min(self.configuration.messageLimit, 1 << 30)
        // In an array of SockJS, a text can have twice as many bytes. What is larger than a packet of engine.io is answered by the session.
        return (self.configuration.transformer == .sockjs ? 2 * limit : limit) + bodyLimitWithoutMessages
    }

    // MARK: Authorization

    /// Decides about a request.
    ///
    /// - Parameters:
    ///   - isOfSession: Whether the request belongs to a client that is connected.
    ///   - pending: Called before the application is asked, with the decision, which the caller cancels when the client disconnects. What the
    ///     caller registers for that may be replaced as soon as the application has decided.
    ///   - decided: Receives the response to a client that may not proceed, or `nil`, before this function returns if the application isn't
    ///     asked.
    func authorize(
        _ request: HTTPRequestHead, isOfSession: Bool = false, pending: (PendingDecision<PrimusAuthorizationDecision>) -> Void,
        decided: @escaping @Sendable (HTTPResponse?) -> Void
    ) {
        if !isOfSession {
            if let status = self.faults.refusalStatus {
                return decided(self.rejection(.reject("The server is configured to reject clients.", status: status)))
            }
            if let rejection = self.rejectionOfSurplus { return decided(rejection) }
        }
        guard let authorize = self.configuration.authorize else { return decided(nil) }
        let decision = PendingDecision<PrimusAuthorizationDecision> { decision in
            decided(self.rejection(decision))
        }
        pending(decision)
        let late = PrimusAuthorizationDecision.reject("The server didn't decide in time.", status: 503)
        decision.begin(within: self.configuration.authorizationTimeout, of: self.time, orElse: late) { await authorize(request) }
    }

    /// The response to a client if the server has as many as it accepts.
    private var rejectionOfSurplus: HTTPResponse? {
        var isFull = false
        self.connections.driver.step { machine, _, _ in isFull = machine.isFull }
        return isFull ? self.surplus : nil
    }

    /// Reserves a place for a client.
    ///
    /// - Returns: The response to the client if there is none.
    func reservePlace() -> HTTPResponse? {
        var isReserved = false
        self.connections.driver.step { machine, _, _ in isReserved = machine.reservePlace() }
        return isReserved ? nil : self.surplus
    }

    /// Gives back a place that was reserved for a client that doesn't come.
    func releasePlace() { self.connections.driver.step { machine, _, _ in machine.releasePlace() } }

    private var surplus: HTTPResponse { self.rejection("The server has as many clients as it accepts.", status: 503) }

    /// The response of a decision; `nil` if the client may proceed.
    private func rejection(_ decision: PrimusAuthorizationDecision) -> HTTPResponse? {
        switch decision {
        case .accept:
            // The server may have been released while the application decided.
            return self.connections.isShutDown ? Self.stopped : nil
        case .reject(let message, let status, let headers):
            return self.rejection(message, status: status, headers: headers)
        case .respond(let response): return self.reporting(response)
        }
    }

    private func rejection(_ message: String, status: Int, headers: HTTPHeaders = [:]) -> HTTPResponse {
        var rejection = Self.json(status, ["error": .string(message)])
        for field in headers { rejection.head.headers.add(field.name, field.value) }
        return self.reporting(rejection)
    }

    /// Reports a rejection to the application.
    func reporting(_ response: HTTPResponse) -> HTTPResponse {
        self.connections.driver.step { machine, _, effects in
            machine.deliver(PrimusServerEvent.rejected(status: response.head.status), &effects)
        }
        return response
    }

    // MARK: Responses

    static let notFound = SockJSServedRules.notFound

    /// The answer to a request with another method.
    static func notAllowed(_ methods: String) -> HTTPResponse { HTTPResponse(status: 405, headers: ["Allow": methods]) }
    static let stopped = PrimusServerHandler.text(503, "The server has stopped.")

    static func text(_ status: Int, _ text: String, type: String = "text/plain") -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": type], text: text)
    }

    static func json(_ status: Int, _ body: JSONValue, type: String = "application/json") -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: status, headers: ["Content-Type": type]), body: body.bytes)
    }

    static func refusal(_ refusal: EngineIOError.Refusal) -> HTTPResponse { EngineIOServedRules.refusal(refusal) }

    /// The server's own listener has started.
    func started(at address: ListenerAddress) { self.isOnLoopback.withLock { $0 = LoopbackName.matches(address.host) } }

    /// The response to a request of a page of another host, if the server is reachable only locally and serves local pages alone; `nil` for others.
    ///
    /// A page that has the server's address under a name of its own (DNS rebinding) needs no field `Origin` for some requests, so the field `Host`
    /// is checked as well.
    private func foreignRefusal(of request: HTTPRequestHead) -> HTTPResponse? {
        if self.configuration.allowsForeignOrigins { return nil }
        let isLocalHost = request.headers["Host"].map(LoopbackName.matches(hostField:))
        // A server with a shared listener doesn't know its address, and browsers state the one that they use.
        guard isLocalHost ?? false || self.isOnLoopback.withLock({ $0 }) else { return nil }
        let foreignPage = request.headers["Origin"].flatMap { LoopbackName.host(of: $0) == nil ? $0 : nil }
        let foreignHost = isLocalHost == false ? request.headers["Host"].map { "http://\($0)" } : nil
        guard let origin = foreignPage ?? foreignHost else { return nil }
        let text = RefusedOrigins.text(
            for: origin, advice: "To accept them, set allowsForeignOrigins, or the option --allow-foreign-origins of the tool.")
        let level = self.refusedOrigins.withLock { $0.level(for: origin) }
        self.connections.driver.step { _, _, effects in effects.log(level, text) }
        return Self.text(403, text)
    }

    /// The response to a request of a page whose origin isn't one, or with a method that Primus doesn't allow pages; `nil` for others.
    ///
    /// Source: `access-control` 1.0.1, with the options of Primus.
    private static func refusal(of origin: String, _ request: HTTPRequestHead) -> HTTPResponse? {
        let rest = origin.utf8.drop { byte in
            switch UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte ? byte | 0x20 : byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
            case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."): true
            default: false
            }
        }
        let hasScheme = rest.first == UInt8(ascii: ":") && rest.startIndex != origin.startIndex
        let isOrigin = origin.lowercased() == "null" || hasScheme && !origin.utf8.contains(UInt8(ascii: "%"))
        if isOrigin, Self.methods.contains(request.method) { return nil }
        let text = "Invalid HTTP Access Control (CORS) request:\n  Origin: \(origin)\n  Method: \(request.method)"
        return Self.text(403, text)
    }

    /// The methods that pages of other origins may use.
    private static let methods = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"]

    /// Adds the header fields with which Primus allows pages of any origin.
    static func allow(_ origin: String?, _ head: inout HTTPResponseHead) {
        guard let origin else { return }
        head.headers["Access-Control-Allow-Origin"] = origin
        head.headers["Access-Control-Allow-Credentials"] = "true"
        head.headers["Vary"] = "Origin"
    }

    /// The answer of SockJS to a question about methods that names no origin.
    static func options(_ methods: String) -> HTTPResponse {
        HTTPResponse(
            status: 204,
            headers: [
                "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": methods, "Access-Control-Max-Age": "31536000",
            ])
    }

    private static func preflight(_ request: HTTPRequestHead, _ origin: String?) -> HTTPResponse {
        var response = HTTPResponse(HTTPResponseHead(status: 200), body: [])
        response.head.headers["Access-Control-Max-Age"] = "2592000"
        response.head.headers["Access-Control-Allow-Methods"] = Self.methods.joined(separator: ", ")
        if let fields = request.headers["Access-Control-Request-Headers"], !fields.isEmpty {
            response.head.headers["Access-Control-Allow-Headers"] = fields
        }
        self.allow(origin, &response.head)
        return response
    }
}
