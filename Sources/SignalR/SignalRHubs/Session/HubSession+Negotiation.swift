package import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The steps before a connection: the access token and the negotiation.
///
/// Source: TransportProtocols.md of ASP.NET Core, "POST endpoint-base/negotiate".
extension HubSession {
    private static let redirectLimit = 100
    private static let userAgent = "swift-realtime SignalR"

    package var request: HubRequest {
        let endpoint = HubNegotiation.connectEndpoint(self.attempt.endpoint, token: self.attempt.connectionToken)
        let requests = HubHTTPRequests(endpoint, self.options.format, connectTimeout: self.options.connectTimeout)
        let headers = self.headers(for: self.attempt.endpoint, token: self.attempt.accessToken)
        let rules: any HTTPMessageConnectionRules
        switch self.attempt.transport {
        case .webSockets, nil:
            return .webSocket(
                WebSocketRequest(
                    endpoint.webSocket, headers: self.cookies.headers(headers, for: self.attempt.endpoint),
                    messageLimit: self.options.messageLimit, timeout: self.options.connectTimeout))
        case .serverSentEvents: rules = HubStreamRules(requests, messageLimit: self.options.messageLimit)
        case .longPolling: rules = HubPollingRules(requests, pollTimeout: self.options.pollTimeout)
        }
        let asksForToken =
            self.options.accessToken != nil && !self.attempt.hasTokenOfRedirect && self.sendsCredentials(to: self.attempt.endpoint)
        return .http(
            rules, headers: Self.withoutAccept(headers), asksForToken: asksForToken,
            sendsAfterRedirect: self.options.sendsHeadersAfterRedirect)
    }

    /// The header fields of the next request of a connection over HTTP; `nil` if the connection is over, or closing.
    package func requestHeaders(of id: ConnectionID) -> HTTPMessageConnection.Environment.Fields? {
        guard self.isInUse(id) else { return nil }
        let headers = self.headers(for: self.attempt.endpoint, token: self.attempt.accessToken)
        return (Self.withoutAccept(headers), self.attempt.tokenGeneration)
    }

    /// A server recognizes the request for a stream by this field, which the application therefore can't replace.
    private static func withoutAccept(_ headers: HTTPHeaders) -> HTTPHeaders {
        var headers = headers
        headers["Accept"] = nil
        return headers
    }

    private func isInUse(_ id: ConnectionID) -> Bool { self.connection.current == id && !self.connection.isClosing }

    private func isOwnOrigin(_ endpoint: Endpoint) -> Bool { endpoint.http.origin == self.options.endpoint.http.origin }

    /// Whether the access token and the header fields of the application are sent to an endpoint. Other clients send them wherever a negotiation
    /// leads.
    private func sendsCredentials(to endpoint: Endpoint) -> Bool { self.options.sendsHeadersAfterRedirect || self.isOwnOrigin(endpoint) }

    /// The header fields of a request.
    private func headers(for endpoint: Endpoint, token: String?) -> HTTPHeaders {
        // The second field makes servers that authenticate with cookies answer 401, instead of redirecting to a login page.
        var headers: HTTPHeaders = ["User-Agent": Self.userAgent, "X-Requested-With": "XMLHttpRequest"]
        let isSent = self.sendsCredentials(to: endpoint)
        let token = isSent || self.attempt.hasTokenOfRedirect ? token : nil
        if let token, !token.isEmpty { headers["Authorization"] = "Bearer \(token)" }
        let fields = isSent ? self.options.headers : [:]
        for field in fields { headers[field.name] = nil }
        for field in fields { headers.add(field.name, field.value) }
        // The token belongs to the connection there; another one would be refused.
        if self.attempt.hasTokenOfRedirect, !self.isOwnOrigin(endpoint), let token { headers["Authorization"] = "Bearer \(token)" }
        return headers
    }

    /// A request of this client, without the cookies of servers.
    func post(_ endpoint: Endpoint, token: String?) -> HTTPRequest {
        HTTPRequest(
            "POST", endpoint, headers: self.headers(for: endpoint, token: token), connectTimeout: self.options.connectTimeout,
            idleTimeout: self.options.connectTimeout)
    }

    /// Whether the application can be asked for another access token, which happens once in each attempt: its token was refused, or one that
    /// followed from it.
    var canRefreshToken: Bool { self.options.accessToken != nil && !self.attempt.hasRefreshedToken && self.sendsToken }

    /// Whether the requests of the attempt have a token, if there is one. A redirect without a token may have led to another origin.
    private var sendsToken: Bool { self.attempt.hasTokenOfRedirect || self.sendsCredentials(to: self.attempt.endpoint) }

    /// The advice for a server that rejects an access token.
    var adviceIfTokenRejected: String {
        if self.sendsToken { return "Check the access token." }
        return
            "The negotiation was redirected without a token to another origin, which doesn't receive yours: let the server name a token, or set "
            + "sendsHeadersAfterRedirect."
    }

    package mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.cookies.removeExpired(now: now)
        if self.attempt.fallback == .begins { return self.negotiateForFallback(id, &effects) }
        let earlier = self.attempt
        self.attempt = Attempt(self.options.endpoint)
        (self.attempt.hasRefreshedToken, self.attempt.failures) = (earlier.hasRefreshedToken, earlier.failures)
        guard self.options.accessToken != nil else { return self.negotiate(id, &effects) }
        self.works.start(.accessToken(self.options.accessToken), for: .accessToken(id), &effects)
    }

    mutating func received(
        _ token: Result<String?, HubError>, for id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch self.validated(token) {
        case .success(let token):
            self.attempt.accessToken = token
            self.negotiate(id, &effects)
        case .failure(let error): self.fail(id, error, now: now, &effects)
        }
    }

    func validated(_ token: Result<String?, HubError>) -> Result<String?, HubError> {
        guard case .success(let text?) = token, !Self.isValid(text) else { return token }
        return .failure(HubError(.tokenFailed, self.options.accessTokenSource.invalidTokenMessage))
    }

    /// Whether a token can be in a header field. A line break would make the request invalid, with an error that doesn't tell why.
    static func isValid(_ token: String) -> Bool { token.utf8.allSatisfy { (0x21...0x7E).contains($0) } }

    /// Negotiates, or opens the connection if no negotiation is needed.
    mutating func negotiate(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        if self.options.skipsNegotiation {
            self.attempt.transport = .webSockets
            return effects.commands.append(.open(id, self.request))
        }
        let request = self.post(
            HubNegotiation.endpoint(self.attempt.endpoint, useStatefulReconnect: self.asksForStatefulReconnect),
            token: self.attempt.accessToken)
        self.works.start(.negotiate(self.withCookies(request)), for: .negotiation(id, request, redirects: 0), &effects)
    }

    /// Adds the cookies that servers have set.
    func withCookies(_ request: HTTPRequest) -> HTTPRequest {
        var request = request
        request.headers = self.cookies.headers(request.headers, for: request.endpoint)
        return request
    }

    /// Follows a redirect of HTTP. The URL of the hub stays.
    ///
    /// - Returns: Whether the response is a redirect.
    private mutating func followRedirect(
        _ response: HTTPResponse, of request: HTTPRequest, redirects: Int, for id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) -> Bool {
        do throws(TransportError) {
            guard var next = try request.redirected(by: response.head, keepsFields: true) else { return false }
            guard redirects < HTTPRequest.redirectLimit else { throw request.redirectLoop }
            if next.endpoint.origin != self.options.endpoint.http.origin, !self.options.sendsHeadersAfterRedirect {
                for field in self.options.headers { next.headers[field.name] = nil }
            }
            effects.log(.debug, "connection \(id): the negotiation was redirected to \(next.endpoint)")
            self.works.start(.negotiate(self.withCookies(next)), for: .negotiation(id, next, redirects: redirects + 1), &effects)
        } catch {
            let cause = error.withMessage(self.redacted(error.message))
            self.fail(id, HubError(.negotiationFailed, "The negotiation failed: \(cause.message)", cause: cause), now: now, &effects)
        }
        return true
    }

    mutating func negotiated(
        _ result: Result<HTTPResponse, TransportError>, of request: HTTPRequest, redirects: Int, for id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        let response: HTTPResponse
        switch result {
        case .success(let success): response = success
        case .failure(let error): return self.end(id, self.ending(for: .transport(error), now: now), now: now, &effects)
        }
        self.cookies.store(response.head.headers, from: request.endpoint, now: now)
        if self.followRedirect(response, of: request, redirects: redirects, for: id, now: now, &effects) { return }
        let isRedirected = redirects > 0 && request.endpoint.origin != self.attempt.endpoint.http.origin
        if response.head.status == 401, !isRedirected, self.canRefreshToken {
            self.attempt.hasRefreshedToken = true
            return self.begin(id, now: now, &effects)
        }
        guard response.head.status == 200 else {
            let error = self.error(for: response, of: request, isRedirected: redirects > 0, toOtherOrigin: isRedirected)
            return self.fail(id, error, now: now, &effects)
        }
        do throws(NegotiateError) {
            let answer = try NegotiateResponse(parsing: response.body)
            // A server to which this one redirects is not asked to refresh the authentication.
            if self.attempt.redirects == 0 {
                self.attempt.refreshAt = self.nextRefresh(after: Self.lifetime(seconds: answer.tokenLifetime), now: now)
            }
            switch answer {
            case .error(let text):
                let message = "The server rejected the negotiation: \(self.redacted(text))"
                let error = HubError(.negotiationFailed, message, serverMessage: self.redacted(text, isWhole: true))
                self.fail(id, error, now: now, &effects)
            case .redirect(let redirect): self.redirect(id, to: redirect, now: now, &effects)
            case .connection(let connection): self.connect(id, connection, now: now, &effects)
            }
        } catch {
            // The message omits the body: what can't be read may contain the token of the connection.
            let received = error.code == .notJSON ? " Received \(response.statusSummary)" : ""
            let place = redirects > 0 ? " The negotiation was redirected to \(request.endpoint)." : ""
            self.fail(id, HubError(.negotiationFailed, self.redacted(error.message + received + place)), now: now, &effects)
        }
    }

    private mutating func redirect(
        _ id: ConnectionID, to redirect: NegotiateResponse.Redirect, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.attempt.redirects += 1
        guard self.attempt.redirects <= Self.redirectLimit else {
            let message = "The negotiation was redirected more than \(Self.redirectLimit) times. Check the server for a loop."
            return self.fail(id, HubError(.negotiationFailed, message), now: now, &effects)
        }
        let isSecure = self.attempt.endpoint.isSecure
        do throws(TransportError) {
            self.attempt.endpoint = try self.attempt.endpoint.resolving(redirect.url)
        } catch {
            // The error has no cause: an invalid URL of the application would end the reconnects, but the next answer of the server may
            // be valid.
            let failure = HubError(.negotiationFailed, "The negotiation was redirected to an invalid URL. Check the server.")
            return self.fail(id, failure, now: now, &effects)
        }
        guard self.attempt.endpoint.isSecure || !isSecure else {
            let message =
                "The negotiation was redirected from https to http, which would send the access token unencrypted. Use an https URL on the "
                + "server."
            return self.fail(id, HubError(.negotiationFailed, message), now: now, &effects)
        }
        guard redirect.accessToken.map(Self.isValid) ?? true else {
            let failure = HubError(.negotiationFailed, "The negotiation was redirected with an invalid access token. Check the server.")
            return self.fail(id, failure, now: now, &effects)
        }
        // It is valid for this connection only: the next attempt asks the application again.
        if let token = redirect.accessToken { (self.attempt.accessToken, self.attempt.hasTokenOfRedirect) = (token, true) }
        effects.log(.debug, "connection \(id): redirected to \(self.attempt.endpoint)")
        self.negotiate(id, &effects)
    }

    private mutating func connect(
        _ id: ConnectionID, _ response: NegotiateResponse.Connection, now: Instant, _ effects: inout Effects<Self>
    ) {
        if response.useStatefulReconnect, !self.asksForStatefulReconnect {
            let message = "The server uses stateful reconnect, which the client didn't ask for. Check the server."
            return self.fail(id, HubError(.negotiationFailed, message), now: now, &effects)
        }
        let transports = self.usableTransports(response.transports)
        guard let transport = transports.first else {
            return self.fail(id, self.noTransport(response.transports), now: now, &effects)
        }
        self.attempt.connectionID = response.id
        self.attempt.connectionToken = response.token
        self.attempt.usesStatefulReconnect = response.useStatefulReconnect
        self.attempt.transport = transport
        // A proxy may neither pass on a transport nor refuse it.
        self.attempt.fallback = transports.count == 1 ? .none : .available(PatientLimit(self.options.handshakeTimeout, now: now))
        effects.log(.debug, "connection \(id): opening \(transport)")
        effects.commands.append(.open(id, self.request))
    }

    /// - Parameters:
    ///   - request: The request, which is another one than that of the client after redirects of HTTP.
    ///   - isRedirected: Whether there were any.
    ///   - isOfOtherOrigin: Whether they led to another origin.
    private func error(
        for response: HTTPResponse, of request: HTTPRequest, isRedirected: Bool, toOtherOrigin isOfOtherOrigin: Bool
    ) -> HubError {
        var place = "\(self.attempt.endpoint)"
        if self.attempt.redirects > 0 { place += ", to which \(self.options.endpoint) redirected it," }
        let summary = self.redacted(Self.mayHaveToken(response.body) ? response.statusSummary : response.summary)
        var text = "The negotiation with \(place) was answered with the status \(summary)"
        if isRedirected {
            text = "The negotiation with \(place) was redirected to \(request.endpoint), which answered with the status \(summary)"
        }
        if isRedirected, request.method != "POST" {
            text +=
                " The POST request became a \(request.method) request: use the URL of the hub there, or redirect with the status 307 or 308."
        } else if isOfOtherOrigin, [401, 403].contains(response.head.status) {
            text += " A redirect takes no credentials to another origin: use the URL of the hub there."
        }
        let cause = TransportError(.requestRejected, text, response: response, isOfOtherOrigin: isOfOtherOrigin)
        switch response.head.status {
        case 401 where isOfOtherOrigin, 403 where isOfOtherOrigin: return HubError(.unauthorized, text, cause: cause)
        case 401 where !self.sendsToken, 403 where !self.sendsToken:
            return HubError(.unauthorized, "\(text) \(self.adviceIfTokenRejected)", cause: cause)
        case 401 where self.options.accessToken == nil:
            return HubError(.unauthorized, "\(text) \(self.options.accessTokenSource.adviceIfMissing)", cause: cause)
        case 401, 403:
            return HubError(.unauthorized, "\(text) \(self.options.accessTokenSource.adviceIfRejected)", cause: cause)
        // The last two are those of a server that expects WebSockets or other requests at this URL.
        case 404, 405, 426:
            let advice =
                isRedirected && request.method != "POST" ? "" : " Check the URL: either it isn't that of a hub, or a proxy blocks it."
            return HubError(.negotiationFailed, "\(text)\(advice)", cause: cause)
        default: return HubError(.negotiationFailed, text, cause: cause)
        }
    }

    /// Whether the body of a response may be the answer of a negotiation, with the token of the connection, although its status isn't that of one.
    private static func mayHaveToken(_ body: [UInt8]) -> Bool {
        let text = String(decoding: body, as: UTF8.self).lowercased()
        return ["connectiontoken", "connectionid", "accesstoken"].contains { text.containsText($0) }
    }

    mutating func fail(_ id: ConnectionID, _ error: HubError, now: Instant, _ effects: inout Effects<Self>) {
        let reason = CloseReason.transport(error.transportError ?? TransportError(.protocolViolation, error.message))
        self.end(id, reason, error, now: now, &effects)
    }

    // MARK: Secrets

    /// The maximum size of a text of the server, in bytes.
    private static let textLimit = 4096
    /// The maximum size of a text of the server in a message, in bytes. With what precedes it, a message has at most 1,000.
    private static let messageLimit = 700

    /// Removes from a text of the server what must not appear in errors and logs: the tokens, the cookies, and the values of the configured
    /// header fields. Returns the start of a long text.
    ///
    /// - Parameter isWhole: Whether the text isn't part of a message.
    func redacted(_ text: String, isWhole: Bool = false) -> String {
        let tokens = self.attempt.redactedTokens + [self.attempt.connectionToken].compactMap(\.self)
        return SecretFilter(tokens + self.options.headers.secrets + self.cookies.secrets).redacted(
            text, limit: isWhole ? Self.textLimit : Self.messageLimit)
    }

    /// The start of a name that the server chose, in one line.
    func excerpt(_ name: String) -> String {
        Excerpt.of(self.redacted(name).split(whereSeparator: \.isNewline).joined(separator: " "), limit: 200)
    }

    func redacted(_ reason: CloseReason) -> CloseReason { reason.mapText { self.redacted($0) } }
}

extension HubSession.Attempt: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint), ("accessToken", Redacted.optional(self.accessToken)),
            // In version 0 of the negotiation, the ID is the secret.
            ("connectionID", self.connectionID == self.connectionToken ? Redacted.optional(self.connectionID) : self.connectionID),
            ("connectionToken", Redacted.optional(self.connectionToken)),
        ]
    }
}
