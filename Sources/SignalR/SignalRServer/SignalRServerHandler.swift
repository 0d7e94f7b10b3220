import RealtimeCore
import RealtimeEncoding
import RealtimeSystem
import SignalRWire

/// Handles what a listener accepts: negotiations, and the connections of all transports for the server's driver.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class SignalRServerHandler: ListenerHandler {
    private struct State: Sendable {
        /// By their paths in lower case: as in ASP.NET Core, the letter case of a path is ignored.
        var hubs: [ByteString: Hub] = [:]
        var faults = SignalRServerFaults()
        /// Whether the server's own listener has a loopback address.
        var isOnLoopback = false
        var refusedOrigins = RefusedOrigins()
    }

    private enum Endpoint {
        case hub(Hub)
        case negotiation(Hub)
        case refresh(Hub)
    }

    let hooks: SignalRServerHooks
    let configuration: SignalRServerConfiguration
    let connections: ServedConnections<SignalRServerMachine>
    var driver: SessionDriver<SignalRServerMachine> { self.connections.driver }
    let time: any TimeSource
    /// Receives what connections over HTTP do. A listener reports what WebSockets do.
    let trace: ConnectionTrace?
    /// The messages that wait for the clients of all connections over HTTP.
    let sharedBacklog: SharedBacklog
    private let state = Lock(State())

    init(
        hooks: SignalRServerHooks, configuration: SignalRServerConfiguration, connections: ServedConnections<SignalRServerMachine>,
        time: any TimeSource, trace: ConnectionTrace?
    ) {
        (self.hooks, self.configuration, self.connections, self.time, self.trace) = (hooks, configuration, connections, time, trace)
        self.sharedBacklog = SharedBacklog(limit: configuration.totalBacklogLimit)
    }

    /// Removes all hubs and returns them.
    func removeHubs() -> [Hub] {
        self.state.withLock { state in
            defer { state.hubs = [:] }
            return Array(state.hubs.values)
        }
    }

    /// Returns the hub at a path, and creates it if there is none.
    func hub(_ path: String, _ make: () -> Hub) -> Hub {
        let key = Self.key(path)
        return self.state.withLock { state in
            if let hub = state.hubs[key] { return hub }
            let hub = make()
            state.hubs[key] = hub
            return hub
        }
    }

    /// A path without regard to case and to a slash at its end.
    private static func key(_ path: String) -> ByteString {
        var path = path.lowercased()
        if path.utf8.count > 1, path.utf8.last == UInt8(ascii: "/") { path.removeLast() }
        return ByteString(path)
    }

    private func endpoint(_ request: HTTPRequestHead) -> Endpoint? {
        let key = Self.key(String(request.path))
        let path = key.string
        return self.state.withLock { state in
            if let hub = state.hubs[key] { return .hub(hub) }
            guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
            let parent = slash == path.startIndex ? "/" : String(path[..<slash])
            guard let hub = state.hubs[ByteString(parent)] else { return nil }
            switch path[slash...] {
            case "/negotiate": return .negotiation(hub)
            case "/refresh": return .refresh(hub)
            default: return nil
            }
        }
    }

    // MARK: Requests

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if self.connections.isShutDown { return responder.respond(Self.stopped) }
        let origin = self.origin(of: request)
        let responder = origin.allowed.map { CrossOriginResponder(responder, origin: $0) } ?? responder
        let endpoint = self.endpoint(request)
        if let preflight = origin.preflight(request, refusal: self.refusal(of:)) {
            return responder.respond(endpoint == nil ? Self.unknownPath : preflight)
        }
        switch endpoint {
        case .negotiation(let hub):
            guard request.method == "POST" else { return responder.respond(Self.negotiationNeedsPost) }
            self.negotiate(request, hub, responder)
        case .refresh(let hub):
            guard request.method == "POST" else { return responder.respond(Self.refreshNeedsPost) }
            self.refresh(request, hub, responder)
        case .hub(let hub): self.exchange(request, body, hub, responder)
        case nil: responder.respond(Self.unknownPath)
        }
    }

    // MARK: WebSockets

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.connections.isShutDown { return .reject(Self.stopped) }
        switch self.endpoint(request) {
        case .hub(let hub):
            return .later { responder in
                self.authenticate(request, hub) { authentication in
                    responder.onCancel { authentication.cancel() }
                } decided: { decision in
                    self.decided(decision, about: request, to: hub, responder)
                }
            }
        case .negotiation: return .reject(Self.negotiationNeedsPost)
        case .refresh: return .reject(Self.refreshNeedsPost)
        case nil: return .reject(Self.unknownPath)
        }
    }

    private func decided(
        _ decision: SignalRAuthenticationDecision, about request: HTTPRequestHead, to hub: Hub, _ responder: UpgradeResponder
    ) {
        // The server may have been released while the hook decided.
        if self.connections.isShutDown { return responder.reject(Self.stopped) }
        switch decision {
        case .reject(let status): responder.reject(self.rejection(status, hub, request))
        case .accept(let userID, _):
            if let status = self.faults.refusal(of: .webSockets) { return responder.reject(self.rejection(status, hub)) }
            let token = Self.field("id", request).flatMap { $0.isEmpty ? nil : $0 }
            let admission = SignalRServerMachine.Admission(request: request, hub: hub.id, token: token, userID: userID)
            var refusal: HubRefusal?
            self.driver.step { machine, _, _ in refusal = machine.admit(admission) }
            if let refusal { return responder.reject(self.response(refusal, hub)) }
            responder.accept(to: Acceptor(handler: self, admission: admission))
        }
    }

    private struct Acceptor: UpgradeAcceptor {
        let handler: SignalRServerHandler
        let admission: SignalRServerMachine.Admission

        var messageLimit: Int? { self.handler.configuration.containerLimit }

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
            let divided = DividedConnection(connection, id, HubMessageDivider(), time: self.handler.time)
            let events = self.handler.connections.adopt(divided, id: id) { machine, now, effects in
                if machine.connected(self.admission, id, now: now, &effects) { return }
                effects.commands.append(.close(id, .policyViolation, reason: "The connection ID has expired."))
            }
            divided.start(events)
            return divided
        }

        func abandoned() { self.handler.driver.step { machine, _, _ in machine.abandoned(self.admission) } }
    }

    /// Only a client of a connection over HTTP sends messages in requests. What is larger than they can be is answered by the connection, which
    /// ends then.
    func bodyLimit(for request: HTTPRequestHead) -> Int? {
        guard request.method == "POST", case .hub(let hub) = self.endpoint(request),
            self.driver.read({ $0.connectionOverHTTP(withToken: Self.field("id", request), on: hub.id) }) != nil
        else { return bodyLimitWithoutMessages }
        return self.configuration.containerLimit + bodyLimitWithoutMessages
    }

    // MARK: Authentication

    /// Asks the hook, unless the faults decide.
    ///
    /// - Parameters:
    ///   - connection: The connection whose authentication is refreshed, for the same user.
    ///   - pending: Called before the hook is asked, with the decision, which the caller cancels when the client disconnects. What the caller
    ///     registers for that may be replaced as soon as the hook has decided.
    ///   - decided: Receives the decision, before this function returns if no hook is asked.
    func authenticate(
        _ request: HTTPRequestHead, _ hub: Hub, isNegotiation: Bool = false, refreshing connection: HubConnectionInfo? = nil,
        pending: (PendingDecision<SignalRAuthenticationDecision>) -> Void,
        decided: @escaping @Sendable (SignalRAuthenticationDecision) -> Void
    ) {
        guard self.origin(of: request).refused == nil else { return decided(.reject(status: 403)) }
        let token = Self.token(request)
        if let status = self.state.withLock({ $0.faults.rejection(token: token) }) { return decided(.reject(status: status)) }
        let (hook, approve) = (self.hooks.authenticate, connection == nil ? nil : self.hooks.approveRefresh)
        guard hook != nil || approve != nil else { return decided(.accept(userID: nil)) }
        let authentication = PendingDecision(decided)
        pending(authentication)
        let question = SignalRAuthenticationRequest(
            hub: hub.path, token: token, isNegotiation: isNegotiation, isRefresh: connection != nil, request: request)
        authentication.begin(within: self.configuration.authenticationTimeout, of: self.time, orElse: .reject(status: 503)) {
            let decision = await hook?(question) ?? .accept(userID: nil)
            guard let connection, case .accept(let userID, _) = decision else { return decision }
            guard userID == connection.userID else { return .reject(status: 403) }
            let refresh = SignalRAuthenticationRefresh(connectionID: connection.connectionID, userID: userID, authentication: question)
            return await approve?(refresh) ?? true ? decision : .reject(status: 403)
        }
    }

    /// The server's own listener has started.
    func started(at address: ListenerAddress) {
        self.state.withLock { $0.isOnLoopback = LoopbackName.matches(address.host) }
    }

    /// Whether a web page of another host has sent a request to a server on a loopback address.
    func isOfRefusedOrigin(_ request: HTTPRequestHead) -> Bool { self.origin(of: request).refused != nil }

    private func origin(of request: HTTPRequestHead) -> HubOrigin {
        HubOrigin(request, self.configuration, isOnLoopback: self.state.withLock { $0.isOnLoopback })
    }

    private static func token(_ request: HTTPRequestHead) -> String? {
        if let field = request.headers["Authorization"], field.utf8.count > 7, field.prefix(7).lowercased() == "bearer " {
            return String(field.dropFirst(7))
        }
        return self.field("access_token", request)
    }

    /// The decoded value of a field of the query.
    static func field(_ name: String, _ request: HTTPRequestHead) -> String? {
        PercentEncoding.fields(request.query).flatMap { HubNegotiation.value(of: name, in: $0) }
    }

    // MARK: Responses

    /// Rejects a request that wasn't authenticated.
    func rejection(_ status: Int, _ hub: Hub, _ request: HTTPRequestHead) -> HTTPResponse {
        let response = self.rejection(status, hub)
        return self.origin(of: request).refused.map { self.refusal(of: $0) } ?? response
    }

    /// Refuses a page of another host, and logs what to do about it.
    private func refusal(of origin: String) -> HTTPResponse {
        let level = self.state.withLock { $0.refusedOrigins.level(for: origin) }
        let text = RefusedOrigins.text(for: origin, advice: self.configuration.adviceForForeignOrigins)
        self.driver.step { _, _, effects in effects.log(level, text) }
        return Self.response(403, text)
    }

    func rejection(_ status: Int, _ hub: Hub) -> HTTPResponse {
        self.driver.step { machine, _, effects in machine.deliver(.rejected(hub: hub.path, status: status), &effects) }
        switch status {
        case 401:
            var response = Self.response(401, "Unauthorized")
            response.head.headers["WWW-Authenticate"] = "Bearer"
            return response
        case 403: return Self.response(403, "Forbidden")
        default: return Self.response(status, "The server rejected the request.")
        }
    }

    /// Refuses a request for the reason of the machine.
    func response(_ refusal: HubRefusal, _ hub: Hub) -> HTTPResponse {
        self.driver.step { machine, _, effects in machine.deliver(.rejected(hub: hub.path, status: refusal.status), &effects) }
        return Self.response(refusal.status, refusal.text)
    }

    static let stopped = SignalRServerHandler.response(503, "The server has stopped.")
    private static let unknownPath = SignalRServerHandler.response(404, "There is no hub at this path.")
    private static let negotiationNeedsPost = SignalRServerHandler.response(405, "Use POST to negotiate.")
    private static let refreshNeedsPost = SignalRServerHandler.response(405, "Use POST to refresh the authentication.")

    static func response(_ status: Int, _ text: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": "text/plain"], text: text)
    }

    static func json(_ body: [UInt8]) -> HTTPResponse {
        HTTPResponse(
            HTTPResponseHead(status: 200, headers: ["Content-Type": "application/json", "Cache-Control": "no-store"]), body: body)
    }

    // MARK: Faults

    var faults: SignalRServerFaults {
        get { self.state.withLock { $0.faults } }
        set {
            self.state.withLock { $0.faults = newValue }
            self.connections.setFaults(newValue.connections)
        }
    }

    /// Whether the answer to a request that brings messages is lost. Counts the request.
    func losesAnswer() -> Bool { self.state.withLock { $0.faults.losesAnswer() } }
}
