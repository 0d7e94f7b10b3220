package import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The refresh of the authentication: the server accepts another access token for the established connection.
///
/// One refresh is in progress at a time, and all callers receive its result. It fails alone: the connection remains.
///
/// Source: ASP.NET Core 11, `POST [endpoint-base]/refresh`, and its clients.
extension HubSession {
    /// A refresh in progress.
    struct Refresh: Sendable {
        var work: WorkID
        var limit: PatientLimit
        /// The token that the server is asked to accept.
        var token: String?
        /// The callers that wait for the result.
        var callers: [WaiterID] = []
        /// Whether the refresh is needed without a caller as well.
        var isAutomatic: Bool
    }

    /// Refreshes the authentication for a caller, or lets it wait for the refresh in progress.
    package mutating func refreshAuthentication(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.established != nil else { return effects.resume(waiter, .failure(self.notConnected)) }
        guard self.attempt.secretToken != nil else {
            let message = "A connection without a negotiation of version 1 can't be refreshed. Negotiate with a server that supports it."
            return effects.resume(waiter, .failure(HubError(.authenticationRefreshFailed, message)))
        }
        self.beginRefresh(isAutomatic: false, now: now, &effects)
        self.refresh?.callers.append(waiter)
    }

    /// Returns when an automatic refresh is due: some time before the end of the lifetime, but not in its first half.
    func nextRefresh(after lifetime: Duration?, now: Instant) -> Instant? {
        guard self.options.refreshesAuthentication, let lifetime else { return nil }
        let delay = max(lifetime / 2, lifetime - max(.zero, self.options.refreshBeforeExpiration))
        // A server whose lifetimes are shorter must not keep the client busy.
        return now.advanced(by: max(.seconds(1), delay))
    }

    /// The lifetime of a token in a response, up to 100 years; `nil` if the response contains none.
    static func lifetime(seconds: Double?) -> Duration? {
        guard let seconds, seconds > 0 else { return nil }
        return .seconds(min(seconds, 100 * 365 * 86400))
    }

    var refreshDeadline: Instant? { .earliest(self.refreshAt, self.refresh?.limit.deadline) }

    mutating func refreshTimeout(now: Instant, _ effects: inout Effects<Self>) {
        if let refresh, self.refresh?.limit.hasPassed(now: now) == true {
            self.works.cancel(refresh.work, &effects)
            let message = "The authentication wasn't refreshed within \(self.options.connectTimeout). Check the server."
            self.refreshed(.failure(HubError(.timedOut, message)), &effects)
        }
        if let refreshAt, refreshAt <= now {
            self.refreshAt = nil
            self.beginRefresh(isAutomatic: true, now: now, &effects)
        }
    }

    private mutating func beginRefresh(isAutomatic: Bool, now: Instant, _ effects: inout Effects<Self>) {
        if self.refresh != nil {
            if isAutomatic { self.refresh?.isAutomatic = true }
            return
        }
        effects.log(.debug, "refreshing the authentication")
        // Without a provider of tokens, the request may be authenticated by header fields and cookies.
        let work =
            self.options.accessToken == nil
            ? self.requestRefresh(token: nil, &effects)
            : self.works.start(.accessToken(self.options.accessToken), for: .tokenForRefresh, &effects)
        let limit = PatientLimit(max(.nanoseconds(1), self.options.connectTimeout), now: now)
        self.refresh = Refresh(work: work, limit: limit, isAutomatic: isAutomatic)
    }

    /// The endpoint of the request: the application's endpoint, also if a negotiation redirected to another one.
    var refreshEndpoint: Endpoint {
        HubNegotiation.refreshEndpoint(self.options.endpoint, token: self.attempt.secretToken ?? "")
    }

    private mutating func requestRefresh(token: String?, _ effects: inout Effects<Self>) -> WorkID {
        self.works.start(.negotiate(self.withCookies(self.post(self.refreshEndpoint, token: token))), for: .refresh, &effects)
    }

    mutating func receivedForRefresh(_ token: Result<String?, HubError>, _ effects: inout Effects<Self>) {
        switch self.validated(token) {
        case .success(let token):
            // Also a token that is rejected must not appear in later texts.
            self.attempt.redact(token)
            let work = self.requestRefresh(token: token, &effects)
            self.refresh?.work = work
            self.refresh?.token = token
        case .failure(let error): self.refreshed(.failure(error), &effects)
        }
    }

    mutating func refreshAnswered(_ result: Result<HTTPResponse, TransportError>, now: Instant, _ effects: inout Effects<Self>) {
        let response: HTTPResponse
        switch result {
        case .success(let success): response = success
        case .failure(let error):
            let cause = error.withMessage(self.redacted(error.message))
            return self.refreshed(.failure(HubError(.authenticationRefreshFailed, cause.message, cause: cause)), &effects)
        }
        self.cookies.store(response.head.headers, from: self.refreshEndpoint, now: now)
        guard response.head.status == 200 else { return self.refreshed(.failure(self.rejection(response)), &effects) }
        guard let answer = RefreshResponse(parsing: response.body), Self.isValid(answer.accessToken ?? "") else {
            // The message omits the body, which may contain a token.
            let message = "The server \(self.options.endpoint) answered the refresh of the authentication with an invalid response."
            return self.refreshed(.failure(HubError(.authenticationRefreshFailed, message)), &effects)
        }
        if let token = answer.accessToken {
            self.attempt.accessToken = token
        } else if !self.attempt.hasTokenOfRedirect, let token = self.refresh?.token {
            // Otherwise, the other server has a token of its own.
            self.attempt.accessToken = token
        }
        let lifetime = Self.lifetime(seconds: answer.tokenLifetime)
        self.refreshAt = self.nextRefresh(after: lifetime, now: now)
        self.refreshed(.success(lifetime), &effects)
    }

    private func rejection(_ response: HTTPResponse) -> HubError {
        let status = response.head.status
        let rejection = RefreshRejection(parsing: response.body)
        let code = rejection.map { self.excerpt($0.error) }
        let description = rejection?.description.map { self.redacted($0) }
        var text = "The server \(self.options.endpoint) rejected the refresh of the authentication with the status "
        if let code {
            text += "\(status) (\(code))\(description.map { ": \($0)" } ?? ".")"
        } else {
            text += self.redacted(response.summary)
        }
        if status == 404, code != "connection_not_found" { text += " Enable authentication refresh for the hub." }
        return HubError(
            .authenticationRefreshFailed, text, serverMessage: description, serverCode: code,
            cause: TransportError(.requestRejected, text, response: response))
    }

    /// Ends the refresh with a result.
    private mutating func refreshed(_ result: Result<Duration?, HubError>, _ effects: inout Effects<Self>) {
        guard let refresh = self.refresh.take() else { return }
        switch result {
        case .success(let lifetime):
            effects.log(.info, "the authentication was refreshed\(lifetime.map { ", for \($0)" } ?? "")")
            self.publish(.authenticationRefreshed(lifetime: lifetime), &effects)
        case .failure(let error):
            effects.log(.warning, error.message)
            self.publish(.authenticationRefreshFailed(error), &effects)
        }
        for waiter in refresh.callers { effects.resume(waiter, result.map { .refreshed(lifetime: $0) }) }
    }

    /// Ends the refresh with its connection, whose loss is reported anyway, and schedules no other.
    mutating func failRefresh(_ error: HubError, _ effects: inout Effects<Self>) {
        self.refreshAt = nil
        for waiter in self.refresh.take()?.callers ?? [] { effects.resume(waiter, .failure(error)) }
    }

    /// A caller doesn't wait for the refresh any more, which continues if it is needed otherwise.
    mutating func cancelRefresh(for waiter: WaiterID, _ effects: inout Effects<Self>) {
        self.refresh?.callers.removeAll { $0 == waiter }
        guard let refresh, refresh.callers.isEmpty, !refresh.isAutomatic else { return }
        self.works.cancel(refresh.work, &effects)
        self.refresh = nil
    }
}

extension HubSession.Refresh: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("token", Redacted.optional(self.token)), ("isAutomatic", self.isAutomatic), ("callers", self.callers.count)]
    }
}
