import RealtimeCore
import RealtimeEncoding
import RealtimeSystem
import SignalRWire

/// Handles what a listener accepts: negotiations, and WebSockets for the server's driver.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class SignalRServerHandler: ListenerHandler {
    private struct State: Sendable {
        /// By their paths in lower case: as in ASP.NET Core, the letter case of a path is ignored.
        var hubs: [ByteString: Hub] = [:]
        var faults = SignalRServerFaults()
        /// Whether the server's own listener has a loopback address.
        var isOnLoopback = false
    }

    private enum Endpoint {
        case hub(Hub)
        case negotiation(Hub)
        case refresh(Hub)
    }

    private let hooks: SignalRServerHooks
    private let configuration: SignalRServerConfiguration
    private let connections: ServedConnections<SignalRServerMachine>
    private var driver: SessionDriver<SignalRServerMachine> { self.connections.driver }
    private let time: any TimeSource
    private let state = Lock(State())

    init(
        hooks: SignalRServerHooks, configuration: SignalRServerConfiguration, connections: ServedConnections<SignalRServerMachine>,
        time: any TimeSource
    ) {
        (self.hooks, self.configuration, self.connections, self.time) = (hooks, configuration, connections, time)
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
        switch self.endpoint(request) {
        case .negotiation(let hub):
            guard request.method == "POST" else { return responder.respond(Self.negotiationNeedsPost) }
            let authentication = self.authenticate(request, hub, isNegotiation: true) { decision in
                responder.respond(self.negotiate(request, hub, decision))
            }
            if let authentication { responder.onDisconnect { authentication.cancel() } }
        case .refresh(let hub):
            guard request.method == "POST" else { return responder.respond(Self.refreshNeedsPost) }
            self.refresh(request, hub, responder)
        case .hub(let hub): responder.respond(self.response(request, hub))
        case nil: responder.respond(Self.unknownPath)
        }
    }

    private func negotiate(_ request: HTTPRequestHead, _ hub: Hub, _ decision: SignalRAuthenticationDecision) -> HTTPResponse {
        if self.connections.isShutDown { return Self.stopped }
        let faults = self.faults
        let lifetime: Duration?
        switch decision {
        case .reject(let status): return self.rejection(status, hub)
        case .accept(_, let accepted): lifetime = accepted
        }
        if let status = faults.negotiationStatus { return self.rejection(status, hub) }
        if let error = faults.negotiationError { return Self.response(.error(error)) }
        let version: Int
        do throws(NegotiateError) {
            version = try HubNegotiation.Request(query: request.query).version
        } catch {
            return Self.response(.error(error.message))
        }
        var result = SignalRServerMachine.NegotiationResult.unavailable
        self.driver.step { machine, now, effects in
            result = machine.negotiate(hub.id, usesToken: version > 0, now: now, &effects)
        }
        switch result {
        case .connection(let id, let token):
            let transports = [HubTransportOffer(.webSockets)]
            let tokenLifetime = token == nil ? nil : self.reportedLifetime(lifetime)
            return Self.response(
                .connection(.init(id: id, secretToken: token, version: version, transports: transports, tokenLifetime: tokenLifetime)))
        case .redirect(let redirect): return Self.response(.redirect(redirect))
        case .unavailable: return self.rejection(503, hub)
        }
    }

    /// The lifetime of a token for clients, in seconds; `nil` if they can't refresh their authentication.
    private func reportedLifetime(_ lifetime: Duration?) -> Double? {
        guard self.configuration.allowsAuthenticationRefresh, let lifetime, lifetime > .zero else { return nil }
        return lifetime / .seconds(1)
    }

    private func refresh(_ request: HTTPRequestHead, _ hub: Hub, _ responder: any HTTPResponder) {
        guard self.configuration.allowsAuthenticationRefresh else {
            return responder.respond(self.refreshRejection(404, "refresh_disabled", "The hub doesn't allow authentication refresh.", hub))
        }
        guard let token = Self.field("id", request), !token.isEmpty else {
            return responder.respond(self.refreshRejection(400, "missing_connection_token", "The query has no field \"id\".", hub))
        }
        guard let connection = self.driver.read({ $0.connection(withToken: token, on: hub.id) }) else {
            return responder.respond(self.unknownConnection(hub))
        }
        let authentication = self.authenticate(request, hub, refreshing: connection) { decision in
            responder.respond(self.refresh(connection, token, hub, decision))
        }
        if let authentication { responder.onDisconnect { authentication.cancel() } }
    }

    private func refresh(
        _ connection: HubConnectionInfo, _ token: String, _ hub: Hub, _ decision: SignalRAuthenticationDecision
    ) -> HTTPResponse {
        switch decision {
        case .reject(401): return self.refreshRejection(401, "invalid_token", "The access token is missing or invalid.", hub)
        case .reject(403):
            let text = "The token is that of another user, or the application rejected it."
            return self.refreshRejection(403, "permission_change_rejected", text, hub)
        case .reject(let status): return self.refreshRejection(status, "request_rejected", "The server rejected the request.", hub)
        case .accept(let userID, let lifetime):
            // It may have ended while the hooks decided.
            var isConnected = false
            self.driver.step { machine, _, effects in
                isConnected = machine.connection(withToken: token, on: hub.id)?.id == connection.id
                guard isConnected else { return }
                machine.deliver(.refreshed(hub: hub.path, connectionID: connection.connectionID, userID: userID), &effects)
            }
            guard isConnected else { return self.unknownConnection(hub) }
            let lifetime = self.reportedLifetime(lifetime)
            return Self.json(RefreshResponse(connectionID: connection.connectionID, tokenLifetime: lifetime).bytes)
        }
    }

    private func unknownConnection(_ hub: Hub) -> HTTPResponse {
        self.refreshRejection(404, "connection_not_found", "No connection has this ID.", hub)
    }

    private func refreshRejection(_ status: Int, _ error: String, _ description: String, _ hub: Hub) -> HTTPResponse {
        var response = self.rejection(status, hub)
        response.head.headers["Content-Type"] = "application/json"
        response.body = RefreshRejection(error, description).bytes
        return response
    }

    /// Responds to requests of the other transports, which the negotiation doesn't offer.
    private func response(_ request: HTTPRequestHead, _ hub: Hub) -> HTTPResponse {
        guard ["GET", "POST", "DELETE"].contains(request.method) else { return Self.response(405, "Unsupported method.") }
        switch self.driver.read({ $0.rejection(of: Self.field("id", request), for: hub.id) }) {
        case 400: return Self.response(400, "Connection ID required")
        case let status?: return Self.response(status, "No Connection with that ID")
        case nil: break
        }
        switch request.method {
        case "POST": return Self.response(405, "POST requests are not allowed for WebSocket connections.")
        case "DELETE": return Self.response(400, "Cannot terminate this connection using the DELETE endpoint.")
        default: return Self.response(404, "This hub supports WebSockets only.")
        }
    }

    // MARK: WebSockets

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.connections.isShutDown { return .reject(Self.stopped) }
        switch self.endpoint(request) {
        case .hub(let hub):
            return .later { responder in
                let authentication = self.authenticate(request, hub, isNegotiation: false) { decision in
                    if let response = self.rejection(of: request, hub, decision) { responder.reject(response) } else { responder.accept() }
                }
                if let authentication { responder.onCancel { authentication.cancel() } }
            }
        case .negotiation: return .reject(Self.negotiationNeedsPost)
        case .refresh: return .reject(Self.refreshNeedsPost)
        case nil: return .reject(Self.unknownPath)
        }
    }

    private func rejection(of request: HTTPRequestHead, _ hub: Hub, _ decision: SignalRAuthenticationDecision) -> HTTPResponse? {
        // The server may have been released while the hook decided.
        if self.connections.isShutDown { return Self.stopped }
        switch decision {
        case .reject(let status): return self.rejection(status, hub)
        case .accept(let userID, _):
            var status: Int?
            self.driver.step { machine, now, _ in
                let token = Self.field("id", request).flatMap { $0.isEmpty ? nil : $0 }
                status = machine.admit(request, to: hub.id, token: token, userID: userID, now: now)
            }
            return status.map { self.rejection($0, hub) }
        }
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.connections.adopt(connection, id: id) { machine, now, effects in
            if machine.accepted(id, request, now: now) { return }
            effects.commands.append(.close(id, .policyViolation, reason: "The connection ID has expired."))
        }
    }

    /// More than the limit of a message, because clients such as that of .NET send up to 1 MiB of messages as one.
    func messageLimit(for request: HTTPRequestHead) -> Int? { (1 << 20) + 2 * min(max(0, self.configuration.messageLimit), 1 << 30) }

    // MARK: Authentication

    /// Asks the hook, unless the faults decide.
    ///
    /// - Parameter connection: The connection whose authentication is refreshed, for the same user.
    /// - Returns: The running decision, or `nil` if there is none to cancel.
    private func authenticate(
        _ request: HTTPRequestHead, _ hub: Hub, isNegotiation: Bool = false, refreshing connection: HubConnectionInfo? = nil,
        _ decided: @escaping @Sendable (SignalRAuthenticationDecision) -> Void
    ) -> PendingDecision<SignalRAuthenticationDecision>? {
        guard self.allowsOrigin(of: request) else {
            decided(.reject(status: 403))
            return nil
        }
        let token = Self.token(request)
        if let status = self.state.withLock({ $0.faults.rejection(token: token) }) {
            decided(.reject(status: status))
            return nil
        }
        let (hook, approve) = (self.hooks.authenticate, connection == nil ? nil : self.hooks.approveRefresh)
        guard hook != nil || approve != nil else {
            decided(.accept(userID: nil))
            return nil
        }
        let authentication = PendingDecision(decided)
        let question = SignalRAuthenticationRequest(
            hub: hub.path, token: token, isNegotiation: isNegotiation, isRefresh: connection != nil, request: request)
        authentication.begin(within: self.configuration.authenticationTimeout, of: self.time, orElse: .reject(status: 503)) {
            let decision = await hook?(question) ?? .accept(userID: nil)
            guard let connection, case .accept(let userID, _) = decision else { return decision }
            guard userID == connection.userID else { return .reject(status: 403) }
            let refresh = SignalRAuthenticationRefresh(connectionID: connection.connectionID, userID: userID, authentication: question)
            return await approve?(refresh) ?? true ? decision : .reject(status: 403)
        }
        return authentication
    }

    /// The server's own listener has started.
    func started(at address: ListenerAddress) {
        self.state.withLock { $0.isOnLoopback = LoopbackName.matches(address.host) }
    }

    /// Whether a web page that sends this request may use a server on this machine. Other programs send no origin.
    private func allowsOrigin(of request: HTTPRequestHead) -> Bool {
        guard !self.configuration.allowsForeignOrigins, let origin = request.headers["Origin"] else { return true }
        // A server with a shared listener doesn't know its address, and browsers state the one that they use.
        guard self.state.withLock({ $0.isOnLoopback }) || request.headers["Host"].flatMap({ LoopbackName.host(of: "http://\($0)") }) != nil
        else { return true }
        return LoopbackName.host(of: origin) != nil
    }

    private static func token(_ request: HTTPRequestHead) -> String? {
        if let field = request.headers["Authorization"], field.utf8.count > 7, field.prefix(7).lowercased() == "bearer " {
            return String(field.dropFirst(7))
        }
        return self.field("access_token", request)
    }

    /// The decoded value of a field of the query.
    private static func field(_ name: String, _ request: HTTPRequestHead) -> String? {
        PercentEncoding.fields(request.query).flatMap { HubNegotiation.value(of: name, in: $0) }
    }

    // MARK: Responses

    private func rejection(_ status: Int, _ hub: Hub) -> HTTPResponse {
        self.driver.step { machine, _, effects in machine.deliver(.rejected(hub: hub.path, status: status), &effects) }
        switch status {
        case 401:
            var response = Self.response(401, "Unauthorized")
            response.head.headers["WWW-Authenticate"] = "Bearer"
            return response
        case 403: return Self.response(403, "Forbidden")
        case 404: return Self.response(404, "No Connection with that ID")
        case 409: return Self.response(409, "The connection is already in use.")
        default: return Self.response(status, "The server rejected the request.")
        }
    }

    private static let stopped = SignalRServerHandler.response(503, "The server has stopped.")
    private static let unknownPath = SignalRServerHandler.response(404, "There is no hub at this path.")
    private static let negotiationNeedsPost = SignalRServerHandler.response(405, "Use POST to negotiate.")
    private static let refreshNeedsPost = SignalRServerHandler.response(405, "Use POST to refresh the authentication.")

    private static func response(_ status: Int, _ text: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": "text/plain; charset=utf-8"], text: text)
    }

    private static func response(_ negotiation: NegotiateResponse) -> HTTPResponse { Self.json(negotiation.bytes) }

    private static func json(_ body: [UInt8]) -> HTTPResponse {
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
}
