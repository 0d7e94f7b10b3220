import RealtimeCore
import SignalRWire

/// Negotiations, and refreshes of the authentication.
extension SignalRServerHandler {
    func negotiate(_ request: HTTPRequestHead, _ hub: Hub, _ responder: any HTTPResponder) {
        self.authenticate(request, hub, isNegotiation: true) { authentication in
            responder.onDisconnect { authentication.cancel() }
        } decided: { decision in
            responder.respond(self.response(to: request, hub, decision))
        }
    }

    private func response(to request: HTTPRequestHead, _ hub: Hub, _ decision: SignalRAuthenticationDecision) -> HTTPResponse {
        if self.connections.isShutDown { return Self.stopped }
        let faults = self.faults
        let lifetime: Duration?
        switch decision {
        case .reject(let status): return self.rejection(status, hub, request)
        case .accept(_, let accepted): lifetime = accepted
        }
        if let status = faults.negotiationStatus { return self.rejection(status, hub) }
        if let error = faults.negotiationError { return Self.json(NegotiateResponse.error(error).bytes) }
        let negotiation: HubNegotiation.Request
        do throws(NegotiateError) {
            negotiation = try HubNegotiation.Request(query: request.query)
        } catch {
            return Self.json(NegotiateResponse.error(error.message).bytes)
        }
        var result = SignalRServerMachine.NegotiationResult.unavailable
        self.driver.step { machine, now, effects in
            result = machine.negotiate(
                hub.id, usesToken: negotiation.version > 0, wantsResuming: negotiation.useStatefulReconnect, now: now, &effects)
        }
        switch result {
        case .connection(let connection):
            let offers = HubTransport.allCases.filter { connection.transports.contains($0) }.map { HubTransportOffer($0) }
            let tokenLifetime = connection.token == nil ? nil : self.reportedLifetime(lifetime)
            let response = NegotiateResponse.Connection(
                id: connection.id, secretToken: connection.token, version: negotiation.version, transports: offers,
                useStatefulReconnect: connection.allowsResuming, tokenLifetime: tokenLifetime)
            return Self.json(NegotiateResponse.connection(response).bytes)
        case .redirect(let redirect): return Self.json(NegotiateResponse.redirect(redirect).bytes)
        case .unavailable: return self.rejection(503, hub)
        }
    }

    /// The lifetime of a token for clients, in seconds; `nil` if they can't refresh their authentication.
    private func reportedLifetime(_ lifetime: Duration?) -> Double? {
        guard self.configuration.allowsAuthenticationRefresh, let lifetime, lifetime > .zero else { return nil }
        return lifetime / .seconds(1)
    }

    func refresh(_ request: HTTPRequestHead, _ hub: Hub, _ responder: any HTTPResponder) {
        guard self.configuration.allowsAuthenticationRefresh else {
            return responder.respond(self.refreshRejection(404, "refresh_disabled", "The hub doesn't allow authentication refresh.", hub))
        }
        guard let token = Self.field("id", request), !token.isEmpty else {
            return responder.respond(self.refreshRejection(400, "missing_connection_token", "The query has no field \"id\".", hub))
        }
        guard let connection = self.driver.read({ $0.connection(withToken: token, on: hub.id) }) else {
            return responder.respond(self.unknownConnection(hub))
        }
        self.authenticate(request, hub, refreshing: connection) { authentication in
            responder.onDisconnect { authentication.cancel() }
        } decided: { decision in
            if case .reject(let status) = decision, self.isOfRefusedOrigin(request) {
                return responder.respond(self.rejection(status, hub, request))
            }
            responder.respond(self.refresh(connection, token, hub, decision))
        }
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
}
