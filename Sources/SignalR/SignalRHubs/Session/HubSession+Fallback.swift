import RealtimeCore
import SignalRWire

/// The choice of a transport, and the fallback to the next one.
///
/// The order is that of the server's offer. A transport that fails to open is followed by another negotiation, in the same attempt: it has made
/// the connection of the first one unusable.
///
/// Source: TransportProtocols.md of ASP.NET Core, and the clients of .NET and JavaScript.
extension HubSession {
    /// Returns the transports that this attempt can still use, in the order of the server's offer.
    func usableTransports(_ offers: [HubTransportOffer]) -> [HubTransport] {
        var transports: [HubTransport] = []
        for offer in offers where offer.supports(self.options.format) {
            guard let transport = offer.transport, self.options.allowedTransports.contains(transport), !transports.contains(transport),
                !self.attempt.failures.contains(transport)
            else { continue }
            transports.append(transport)
        }
        return transports
    }

    /// The error of a negotiation whose answer offers no transport that this attempt can use.
    func noTransport(_ offers: [HubTransportOffer]) -> HubError {
        let names = self.excerpt(offers.map { "\($0.name) (\($0.transferFormats.joined(separator: ", ")))" }.joined(separator: ", "))
        let format = self.options.format.transferFormat
        let message =
            "The server offers \(names.isEmpty ? "no transport" : "only \(names)"), and this client allows "
            + "\(self.options.allowedTransports) with the format \(format)"
        let advice = self.attempt.failures.isEmpty ? " Allow another transport, or enable one on the server." : ""
        return HubError(.negotiationFailed, "\(message).\(advice)")
    }

    /// Remembers that a transport failed to open.
    ///
    /// - Returns: Whether another one is tried.
    mutating func fallBack(because ending: Ending) -> Bool {
        guard self.isFailureOfTransport(ending.reason), case .available = self.attempt.fallback, let transport = self.attempt.transport
        else {
            return false
        }
        self.attempt.failures.add(transport, ending.failure.message)
        self.attempt.fallback = .begins
        return true
    }

    /// Whether the transport, not the server, ended the attempt in its present state. A proxy may accept a transport and pass nothing on; a server
    /// that rejects the handshake would reject it over any other transport.
    private func isFailureOfTransport(_ reason: CloseReason) -> Bool {
        switch self.connection.state {
        case .opening: true
        case .handshaking: reason == .openTimeout && self.handshakeBuffer.bytes.isEmpty
        default: false
        }
    }

    /// Negotiates again where the failed transport was negotiated.
    mutating func negotiateForFallback(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        if let failure = self.attempt.failures.last {
            effects.log(.info, "connection \(id): falling back from \(failure.transport). \(failure.message)")
        }
        (self.attempt.connectionID, self.attempt.connectionToken) = (nil, nil)
        (self.attempt.transport, self.attempt.fallback) = (nil, .none)
        self.negotiate(id, &effects)
    }

    /// When the transport that is being opened is given up for another one.
    var fallbackDeadline: Instant? {
        guard case .available(let limit) = self.attempt.fallback, case .opening = self.connection.state else { return nil }
        return limit.deadline
    }

    mutating func fallbackTimeout(now: Instant, _ effects: inout Effects<Self>) {
        guard let deadline = self.fallbackDeadline, deadline <= now, case .available(var limit) = self.attempt.fallback,
            let id = self.connection.current
        else { return }
        guard limit.hasPassed(now: now) else { return self.attempt.fallback = .available(limit) }
        effects.commands.append(.abandon(id))
        self.closed(id, .openTimeout, now: now, &effects)
    }

    /// Returns the error of an attempt, with what the transports said that failed before.
    func withEarlierFailures(_ error: HubError) -> HubError {
        guard !self.attempt.failures.isEmpty, self.connection.established == nil else { return error }
        return HubError(
            error.code, self.attempt.failures.added(to: error.message), serverMessage: error.serverMessage, serverCode: error.serverCode,
            cause: error.cause)
    }

    // MARK: Access tokens

    /// Asks the application for another access token, for requests of a connection over HTTP that the server has refused with the token of a
    /// generation. They share the next one. Until there is one, the server receives nothing, and would forget the connection: the application has the time
    /// that it has for an attempt to connect.
    package mutating func refreshToken(
        of id: ConnectionID, refused: Int, _ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let current = self.requestHeaders(of: id) else { return effects.resume(waiter, .failure(self.notConnected)) }
        guard current.generation == refused else { return effects.resume(waiter, .success(.none)) }
        let isAsking = !self.tokenCallers.isEmpty
        self.tokenCallers.insert(waiter)
        if isAsking { return }
        let work = self.works.start(.accessToken(self.options.accessToken), for: .tokenForRequests(id), &effects)
        self.tokenRequest = TokenRequest(
            connection: id, work: work, limit: PatientLimit(max(.nanoseconds(1), self.options.connectTimeout), now: now))
    }

    mutating func tokenTimeout(now: Instant, _ effects: inout Effects<Self>) {
        guard let request = self.tokenRequest, self.tokenRequest?.limit.hasPassed(now: now) == true else { return }
        self.works.cancel(request.work, &effects)
        let message = "The closure that provides access tokens didn't return within \(self.options.connectTimeout)."
        self.receivedForRequests(.failure(HubError(.tokenFailed, message)), of: request.connection, now: now, &effects)
    }

    mutating func receivedForRequests(
        _ token: Result<String?, HubError>, of id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.tokenRequest = nil
        switch self.validated(token) {
        case .success(let token):
            (self.attempt.accessToken, self.attempt.hasRefreshedToken) = (token, true)
            self.tokenCallers.resumeAll(.success(.none), &effects)
        case .failure(let error):
            // Another transport would need a token as well.
            self.attempt.fallback = .none
            effects.commands.append(.abandon(id))
            self.fail(id, error, now: now, &effects)
        }
    }
}
