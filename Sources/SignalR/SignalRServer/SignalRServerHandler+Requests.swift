import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The requests of connections over Server-Sent Events and long polling.
///
/// Source: TransportProtocols.md of ASP.NET Core, "Server-Sent Events (Server-to-Client only)" and "Long Polling (Server-to-Client only)".
extension SignalRServerHandler {
    private typealias Connection = ServedHTTPMessages<HubHTTPRules>

    /// A request at the path of a hub.
    private struct Exchange: Sendable {
        enum Kind: Sendable {
            case waits(HubTransport)
            case brings
            case ends
        }

        var request: ServedRequest
        let kind: Kind
        let hub: Hub
        let token: String?

        func respond(_ response: HTTPResponse) {
            let isPoll = if case .waits(.longPolling) = self.kind { true } else { false }
            self.request.refuse(isPoll ? HubHTTPRules.uncached(response) : response)
        }
    }

    /// Handles a request at the path of a hub.
    func exchange(_ request: HTTPRequestHead, _ body: [UInt8], _ hub: Hub, _ responder: any HTTPResponder) {
        let kind: Exchange.Kind
        var responder = responder
        switch request.method {
        case "GET": kind = .waits(Self.acceptsEvents(request) ? .serverSentEvents : .longPolling)
        case "POST":
            kind = .brings
            if self.losesAnswer() { responder = LosingResponder(responder) }
        case "DELETE": kind = .ends
        default: return responder.respond(Self.response(405, "Unsupported method."))
        }
        let waits = if case .waits = kind { true } else { false }
        var exchange = Exchange(
            request: ServedRequest(request, body: body, waits: waits, responder), kind: kind, hub: hub, token: Self.field("id", request))
        // Without a hook, the decision is made before this function returns.
        if case .brings = kind, self.hooks.authenticate != nil,
            let connection = self.openConnection({ $0.connectionOverHTTP(withToken: exchange.token, on: hub.id) })
        {
            exchange.request.reservePlace(on: connection)
        }
        self.authenticate(request, hub) { [exchange] authentication in
            responder.onDisconnect {
                // An accepted request belongs to its connection, which must learn of the end.
                guard authentication.cancel() else { return }
                exchange.respond(Self.response(400, "The client cancelled the request."))
            }
        } decided: { [exchange] in
            self.decided($0, about: exchange)
        }
    }

    /// Whether a request accepts a stream of events. As in ASP.NET Core, a media type with parameters is another one.
    private static func acceptsEvents(_ request: HTTPRequestHead) -> Bool { request.headers.contains("Accept", token: "text/event-stream") }

    private func openConnection(_ id: (borrowing SignalRServerMachine) -> ConnectionID?) -> Connection? {
        self.driver.connection(id)?.undecorated as? Connection
    }

    /// The request was authenticated, or not.
    private func decided(_ decision: SignalRAuthenticationDecision, about exchange: Exchange) {
        // The server may have been released while the hook decided.
        if self.connections.isShutDown { return exchange.respond(Self.stopped) }
        switch decision {
        case .reject(let status): exchange.respond(self.rejection(status, exchange.hub, exchange.request.head))
        case .accept(let userID, _):
            switch self.decision(about: exchange, userID) {
            case .refuse(let refusal): exchange.respond(self.response(refusal, exchange.hub))
            case .keep: exchange.respond(HubHTTPRules.taken)
            case .open(let key, let transport): exchange.request.pass(to: self.open(transport, key, userID, exchange.request.head))
            case .pass(let id):
                guard let connection = self.openConnection({ _ in id }) else {
                    return exchange.respond(self.response(.unknownToken, exchange.hub))
                }
                exchange.request.pass(to: connection)
            }
        }
    }

    private func decision(about exchange: Exchange, _ userID: String?) -> SignalRServerMachine.RequestDecision {
        let (token, hub) = (exchange.token, exchange.hub.id)
        var decision = SignalRServerMachine.RequestDecision.keep
        let injected: Int? = if case .waits(let transport) = exchange.kind { self.faults.refusal(of: transport) } else { nil }
        self.driver.step { machine, _, _ in
            switch exchange.kind {
            case .waits(let transport):
                decision = machine.waits(transport, token: token, on: hub, userID: userID, refusing: injected)
            case .brings: decision = machine.brings(exchange.request.body, token: token, on: hub, userID: userID)
            case .ends: decision = machine.ends(token: token, on: hub, userID: userID)
            }
        }
        return decision
    }

    private func open(_ transport: HubTransport, _ key: ByteString, _ userID: String?, _ request: HTTPRequestHead) -> Connection {
        let rules = HubHTTPRules(transport, self.configuration)
        let connection = Connection(
            rules, time: self.time, backlogBytes: max(0, self.configuration.backlogLimit), sharedBacklog: self.sharedBacklog)
        let divided = DividedConnection(connection, connection.id, HubMessageDivider(), time: self.time)
        let adopted: any MessageConnection = self.trace.map { TracedConnection(divided, connection.id, $0) } ?? divided
        let events = self.connections.adopt(adopted, id: connection.id) { machine, now, effects in
            if machine.accepted(connection.id, by: transport, token: key, userID: userID, request, now: now, &effects) { return }
            effects.commands.append(.abandon(connection.id))
        }
        divided.start(events)
        connection.start(self.trace.map { TracedEvents(divided, $0) } ?? divided)
        return connection
    }
}
