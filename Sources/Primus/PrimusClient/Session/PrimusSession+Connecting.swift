import PrimusWire
package import RealtimeCore

/// The steps before a connection: the credentials, the specification, and the framing.
extension PrimusSession {
    private static let userAgent = "swift-realtime Primus"

    package var request: PrimusRequest {
        PrimusRequest(
            connection: self.requestedConnection, endpoint: self.requestedEndpoint, framing: self.attempt.framing,
            customTransformer: self.options.customTransformer, customParser: self.options.customParser)
    }

    /// The URL of the first request.
    var requestedEndpoint: Endpoint {
        switch self.attempt.connectionKind {
        case .webSocket: self.webSocketEndpoint
        case .framedWebSocket: self.sockJSSession(.websocket)
        case .streaming: self.sockJSSession(.xhrStreaming)
        case .polling where self.attempt.dialect.transformer == .sockjs: self.sockJSSession(.xhr)
        case .polling: self.address.engineIO(self.engineIOVersion, .polling)
        }
    }

    private var requestedConnection: PrimusRequest.Connection {
        let endpoint = self.requestedEndpoint
        let headers = self.headers(for: endpoint)
        switch self.attempt.connectionKind {
        case .webSocket, .framedWebSocket: return .webSocket(self.webSocketRequest(endpoint))
        case .polling where self.attempt.dialect.transformer != .sockjs:
            return .http(
                EngineIOPollingRules(
                    self.address, headers, self.engineIOVersion, messageLimit: self.options.messageLimit,
                    timeout: self.connection.policy.openTimeout,
                    startedAt: self.epoch + self.attempt.startedAt.nanoseconds / 1_000_000, mayMove: self.mayMove))
        case .streaming, .polling:
            return .http(
                SockJSPollingRules(
                    endpoint, sending: self.sockJSSession(.xhrSend), headers, messageLimit: self.options.messageLimit,
                    timeout: self.connection.policy.openTimeout, isStream: self.attempt.connectionKind == .streaming))
        }
    }

    /// A WebSocket at an endpoint.
    func webSocketRequest(_ endpoint: Endpoint) -> WebSocketRequest {
        WebSocketRequest(
            endpoint, headers: self.cookies.headers(self.headers(for: endpoint), for: endpoint), messageLimit: self.options.messageLimit,
            timeout: self.connection.policy.openTimeout)
    }

    private func sockJSSession(_ transport: SockJSTransport) -> Endpoint {
        self.sockJSAddress.sockJSSession(transport, server: self.attempt.sockJSServer, session: self.attempt.sockJSSession)
    }

    var address: PrimusAddress { PrimusAddress(self.attempt.endpoint) }

    /// The address of the sessions of SockJS.
    private var sockJSAddress: PrimusAddress { self.attempt.sockJSBase.map { PrimusAddress(sockJSBase: $0) } ?? self.address }

    private var webSocketEndpoint: Endpoint {
        if let custom = self.options.customTransformer { return custom.webSocket(self.address.endpoint).webSocket }
        switch self.attempt.dialect.transformer {
        case .engineIO: return self.address.engineIO(self.engineIOVersion, .websocket)
        case .sockjs: return self.address.sockJSRaw
        default: return self.address.plain
        }
    }

    /// The version of engine.io: that which has worked, or that of the server's version of Primus.
    var engineIOVersion: EngineIOVersion {
        if let known = self.knowledge.engineIO { return known }
        if let major = self.attempt.dialect.version.flatMap({ Int($0.prefix { $0 != "." }) }) { return major < 8 ? .v3 : .v4 }
        // A server of version 3 doesn't look at the version that a client asks for, and its handshake doesn't tell it, so that binary packets,
        // which differ, would be lost. A server of version 4 refuses version 3, or speaks it.
        return .v3
    }

    /// The header fields of a request of an attempt, without cookies. Those of the application are only for the origin that it chose.
    private func headers(for endpoint: Endpoint) -> HTTPHeaders {
        var headers: HTTPHeaders = ["User-Agent": Self.userAgent]
        guard endpoint.http.origin == self.attempt.endpoint.http.origin else { return headers }
        for fields in [self.options.headers, self.attempt.credentials?.headers ?? [:]] {
            for field in fields { headers[field.name] = nil }
            for field in fields { headers.add(field.name, field.value) }
        }
        return headers
    }

    private func get(_ endpoint: Endpoint, timeout: Duration) -> HTTPRequest {
        HTTPRequest("GET", endpoint, headers: self.headers(for: endpoint), connectTimeout: timeout, idleTimeout: timeout)
    }

    package mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.cookies.removeExpired(now: now)
        self.attempt.opening = .preparing(nil)
        if self.attempt.isContinued { return self.connect(id, now: now, &effects) }
        (self.attempt.startedAt, self.attempt.timeBegan) = (now, now)
        let preparation = self.preparation
        if preparation.isEmpty {
            return self.prepared(.success(PrimusPrepared(endpoint: preparation.endpoint, credentials: nil)), for: id, now: now, &effects)
        }
        self.works.start(.prepare(preparation), for: .preparation(id), &effects)
    }

    /// The questions to the application and the plugins before each attempt.
    var preparation: PrimusPreparation {
        PrimusPreparation(
            endpoint: PrimusAddress(self.options.endpoint).endpoint, credentials: self.options.credentials,
            requestURL: self.options.requestURL, plugins: self.options.plugins.filter { $0.hooks.contains(.url) })
    }

    mutating func prepared(
        _ result: Result<PrimusPrepared, PrimusError>, for id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch result {
        case .failure(let error): self.fail(id, error, now: now, &effects)
        case .success(let prepared):
            if let refusal = self.attempt.refusal {
                // Asking with the same credentials again would be refused again.
                if refusal.credentials == prepared.credentials, refusal.endpoint == prepared.endpoint {
                    return self.fail(id, refusal.error, isFinal: true, now: now, &effects)
                }
                // The kinds of connections were refused with the other credentials.
                if self.nextConnectionKind == nil { self.attempt.failures = FailedTransports() }
                // Its address has the query of the other credentials.
                (self.attempt.sockJSInfo, self.attempt.sockJSBase) = (nil, nil)
            }
            (self.attempt.endpoint, self.attempt.credentials) = (prepared.endpoint, prepared.credentials)
            self.trace(.outgoingURL, &effects)
            self.traceReconnect(&effects)
            self.detect(id, now: now, &effects)
        }
    }

    // MARK: Detection

    private mutating func detect(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.attempt.specRefusal = nil
        let isNeeded = self.options.detection != .off && self.knowledge.spec == nil && self.knowledge.specProblem == nil
        guard isNeeded else { return self.chooseDialect(id, now: now, &effects) }
        let limit = self.detectionLimit
        self.attempt.specLimit = PatientLimit(max(.nanoseconds(1), limit), now: now)
        self.works.start(.request(self.get(self.address.spec, timeout: limit)), for: .spec(id), &effects)
    }

    /// Whether a connection can be opened without the specification, whatever the reason is why the server doesn't answer with one.
    private var hasTransformer: Bool {
        self.options.detection != .required && (self.options.transformer != nil || self.options.customTransformer != nil)
    }

    /// The time limit for the specification. One that isn't needed leaves at least half of the attempt's time to the connection.
    private var detectionLimit: Duration {
        let limit = self.options.detectionTimeout
        return self.hasTransformer ? min(limit, self.connection.policy.openTimeout / 2) : limit
    }

    mutating func detectionTimeout(now: Instant, _ effects: inout Effects<Self>) {
        guard self.attempt.specLimit?.hasPassed(now: now) == true else { return self.attempt.timeBegan = now }
        self.attempt.specLimit = nil
        guard let id = self.connection.current, self.works.contains(where: { $0 == .spec(id) }) else { return }
        self.works.cancelAll(where: { $0 == .spec(id) }, &effects)
        self.specTimedOut(nil, for: id, now: now, &effects)
    }

    private mutating func specTimedOut(
        _ error: TransportError?, for id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let problem = "the server didn't answer within \(self.detectionLimit)"
        // Each attempt would wait for the specification, which isn't needed.
        self.noSpec(problem, error, self.hasTransformer ? .known : .unknown, for: id, now: now, &effects)
    }

    mutating func received(
        spec result: Result<HTTPResponse, TransportError>, from endpoint: Endpoint?, for id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        self.attempt.specLimit = nil
        let place = self.address.spec.place(answeredBy: endpoint)
        let redirect = endpoint.flatMap { $0 == self.address.spec ? nil : "the request was redirected to \($0): " } ?? ""
        switch result {
        case .failure(let error) where error.code == .timedOut: self.specTimedOut(error, for: id, now: now, &effects)
        case .failure(let error) where self.hasTransformer:
            self.noSpec("the request failed: \(error.message)", error, .unknown, for: id, now: now, &effects)
        case .failure(let error): self.end(id, self.ending(for: .transport(error), now: now), now: now, &effects)
        case .success(let response) where response.head.status == 200:
            do throws(PrimusSpecError) {
                var problems: [PrimusSpecError] = []
                let spec = try PrimusSpec(parsing: response.body) { problems.append($0) }
                self.knowledge.spec = spec
                for error in problems {
                    let problem = Excerpt.sentence(self.redacted(error.problem))
                    effects.log(.warning, "A part of the specification at \(self.address.spec) is ignored: \(problem) Check the server.")
                }
                effects.log(.debug, "connection \(id): the server has Primus \(self.excerpt(spec.version))")
                self.chooseDialect(id, now: now, &effects)
            } catch {
                self.noSpec(redirect + error.problem, nil, .known, for: id, now: now, &effects)
            }
        case .success(let response):
            let status = response.head.status
            let isRefused = [401, 403].contains(status) || status >= 500
            // Whether the server or a proxy before it refuses only this request shows the connection, if the settings may work for one.
            if isRefused, !self.hasTransformer, self.options.detection == .required || self.guessProblem != nil {
                return self.end(id, self.ending(for: self.rejection(of: response, at: place), now: now), now: now, &effects)
            }
            let error = TransportError(.requestRejected, "The status is \(status).", response: response)
            let absence: Absence = !isRefused || self.hasTransformer && status < 500 ? .known : self.hasTransformer ? .unknown : .refused
            let problem = "\(redirect)the server answered with the status \(response.statusSummary)"
            self.noSpec(problem, error, absence, for: id, now: now, &effects)
        }
    }

    /// The knowledge about a specification that the client doesn't get.
    private enum Absence {
        /// The server has none, or it isn't needed: the client doesn't ask again.
        case known
        /// The server or a proxy refuses the request, so that the transformer is a guess in this attempt.
        case refused
        case unknown
    }

    /// Why the settings don't work with the transformer and the parser that are assumed without a specification; `nil` if they do.
    private var guessProblem: String? { self.options.combinationProblem(.websockets, self.options.parser ?? .json) }

    /// Continues without a specification.
    private mutating func noSpec(
        _ problem: String, _ cause: TransportError?, _ absence: Absence, for id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let problem = self.redacted(problem)
        if self.options.detection == .required {
            let message =
                "The specification at \(self.address.spec) can't be read: \(Excerpt.sentence(problem)) Check that the URL is that of a server of "
                + "Primus, or set the detection to automatic or off."
            return self.fail(id, PrimusError(.detectionFailed, message, cause: cause), now: now, &effects)
        }
        if absence == .unknown, !self.hasTransformer, self.guessProblem != nil {
            // The server may have a transformer with which the settings work.
            let message =
                "The specification at \(self.address.spec) is needed, and can't be read: \(Excerpt.sentence(problem)) Check the server."
            return self.fail(id, PrimusError(.detectionFailed, message, cause: cause), now: now, &effects)
        }
        self.knowledge.specProblem = absence == .known ? problem : nil
        self.attempt.specRefusal = absence == .refused ? problem : nil
        self.knowledge.unreportedProblem = self.hasTransformer ? nil : problem
        effects.log(.info, "connection \(id): no specification, so defaults apply: \(problem)")
        self.chooseDialect(id, now: now, &effects)
    }

    /// Reports that the client is open without knowing whether the server is one of Primus. Any server that accepts WebSockets looks like one.
    mutating func reportGuess(_ effects: inout Effects<Self>) {
        guard let problem = self.knowledge.unreportedProblem.take() else { return }
        let dialect = self.attempt.dialect
        let message =
            "The client is open, but there is no specification at \(self.address.spec): \(Excerpt.sentence(problem)) The client assumes "
            + "\(dialect.transformer) and \(dialect.parser). Check that the URL is that of a server of Primus, with its path, or set transformer and "
            + "parser."
        self.log(PrimusError(.detectionFailed, message), &effects)
    }

    private mutating func chooseDialect(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let spec = self.knowledge.spec
        if let spec, let problem = self.options.contradiction(to: spec) {
            // The server may have been changed when the client is opened again.
            self.knowledge.spec = nil
            return self.fail(id, PrimusError(.unsupported, problem), isFinal: true, now: now, &effects)
        }
        let configured = self.options.transformerIsDefault ? spec?.transformer ?? self.options.transformer : self.options.transformer
        let dialect = PrimusDialect(
            transformer: self.options.customTransformer.map { .custom($0.name) } ?? configured ?? spec?.transformer ?? .websockets,
            parser: self.options.customParser.map { .custom($0.name) } ?? self.options.parser ?? spec?.parser ?? .json,
            heartbeat: spec?.heartbeat, version: spec?.version)
        self.attempt.dialect = dialect
        if let problem = self.options.combinationProblem(dialect.transformer, dialect.parser) {
            return self.fail(id, PrimusError(.unsupported, problem), isFinal: true, now: now, &effects)
        }
        self.coding = self.options.customParser.map { PrimusCoding($0) } ?? PrimusCoding(dialect.parser) ?? .json
        self.connect(id, now: now, &effects)
    }

    // MARK: Connecting

    /// The kinds of connections that the settings allow, in the order in which an attempt uses them: first the one that has worked before.
    private var connectionKinds: [PrimusConnectionKind] {
        if let kinds = self.options.connectionKinds { return kinds }
        var kinds: [PrimusConnectionKind]
        switch self.attempt.dialect.transformer {
        case .engineIO: kinds = self.options.startsWithPolling ? [.polling, .webSocket] : [.webSocket, .polling]
        case .sockjs: kinds = [.webSocket, .framedWebSocket, .streaming, .polling]
        default: kinds = [.webSocket]
        }
        if let known = self.knowledge.connectionKind, let index = kinds.firstIndex(of: known) {
            kinds.insert(kinds.remove(at: index), at: 0)
        }
        return kinds.filter { self.options.allowedTransports.contains($0.transport == .webSockets ? .webSockets : .polling) }
    }

    /// The kind of connection that this attempt uses next; `nil` if it has used all of them.
    private var nextConnectionKind: PrimusConnectionKind? {
        self.connectionKinds.first { kind in
            // What the server says of itself.
            if kind == .framedWebSocket, self.attempt.sockJSInfo?.webSocket == false { return false }
            return !self.attempt.failures.contains(kind)
        }
    }

    private mutating func connect(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.attempt.handshake = nil
        guard let kind = self.nextConnectionKind else {
            let message = "The server of SockJS doesn't accept WebSockets. Allow them on the server, or allow polling."
            return self.fail(id, PrimusError(.unsupported, message), now: now, &effects)
        }
        self.attempt.connectionKind = kind
        switch self.attempt.dialect.transformer {
        case .engineIO: self.attempt.framing = .engineIO(self.engineIOVersion, .client)
        case .sockjs where kind != .webSocket:
            self.attempt.framing = .sockJS(.client)
            if self.attempt.sockJSInfo == nil {
                self.attempt.infoRequestedAt = now
                // An attempt that is continued has a new time limit as a connection, and only the rest of its own one.
                self.attempt.opening = .preparing(self.attempt.isContinued ? self.restOfAttempt(now: now) : nil)
                let request = self.get(self.address.sockJSInfo, timeout: self.connection.policy.openTimeout)
                self.works.start(.request(request), for: .info(id), &effects)
                return
            }
        default: self.attempt.framing = .plain
        }
        self.openConnection(id, now: now, &effects)
    }

    private mutating func openConnection(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if case .sockJS = self.attempt.framing {
            self.attempt.sockJSServer = Int.random(in: 0..<1000, using: &self.generator)
            self.attempt.sockJSSession = PrimusAddress.sockJSSessionID(using: &self.generator)
        }
        let request = self.request
        (self.attempt.opening, self.attempt.questionDeadline) = (.connecting(self.kindLimit(now: now)), nil)
        effects.commands.append(.open(id, request))
    }

    /// When the attempt has used its time, whatever it has tried.
    private var attemptEnd: Instant { self.attempt.timeBegan.advanced(by: self.connection.policy.openTimeout) }

    private func restOfAttempt(now: Instant) -> PatientLimit {
        PatientLimit(max(.nanoseconds(1), now.duration(to: self.attemptEnd)), now: now)
    }

    /// The limit of the connection that is being opened; `nil` for the only one, which has the time limit of the attempt.
    ///
    /// Source: `countRTO` in `main.js` of sockjs-client.
    private func kindLimit(now: Instant) -> PatientLimit? {
        let hasOthers = self.connectionKinds.contains { $0 != self.attempt.connectionKind && !self.attempt.failures.contains($0) }
        // All kinds share the time limit of the attempt.
        guard hasOthers else { return self.attempt.isContinued ? self.restOfAttempt(now: now) : nil }
        let limit = max(.nanoseconds(1), now.duration(to: self.attemptEnd) / 2)
        guard let roundTrip = self.attempt.roundTrip else { return PatientLimit(limit, now: now) }
        let timeout = roundTrip > .milliseconds(100) ? roundTrip * 4 : .milliseconds(300) + roundTrip
        // A server whose processor is busy may need longer than the round trip shows.
        return PatientLimit(min(limit, max(.seconds(2), timeout * 2)), now: now)
    }

    mutating func received(
        info result: Result<HTTPResponse, TransportError>, from endpoint: Endpoint?, for id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        let place = self.address.sockJSInfo.place(answeredBy: endpoint)
        switch result {
        case .failure(let error): self.end(id, self.ending(for: .transport(error), now: now), now: now, &effects)
        case .success(let response) where response.head.status == 200:
            do throws(SockJSError) {
                let info = try SockJSInfo(parsing: response.body)
                self.attempt.sockJSInfo = info
                self.attempt.roundTrip = self.attempt.infoRequestedAt?.duration(to: now)
                if let reference = info.baseURL, !reference.isEmpty {
                    do throws(PrimusError) {
                        self.attempt.sockJSBase = try self.sockJSBase(reference)
                    } catch {
                        return self.fail(id, error, now: now, &effects)
                    }
                }
                self.connect(id, now: now, &effects)
            } catch {
                let message = "The answer of \(place) can't be read: \(self.redacted(error.description))"
                self.fail(id, PrimusError(.handshakeFailed, message), now: now, &effects)
            }
        case .success(let response):
            self.end(id, self.ending(for: self.rejection(of: response, at: place), now: now), now: now, &effects)
        }
    }

    /// The address of the sessions that a server of SockJS names. The query of the application, which may contain credentials, is only added if
    /// the origin is the same.
    ///
    /// Source: `main.js` of sockjs-client 1.6.1, where the address replaces that of the server.
    private func sockJSBase(_ reference: String) throws(PrimusError) -> Endpoint {
        let info = self.address.sockJSInfo
        var base: Endpoint
        do throws(TransportError) {
            var address = info
            address.query = nil
            base = try address.resolving(reference).http
        } catch {
            let message =
                "The answer of \(info) has a base_url that isn't a valid URL. \(Excerpt.sentence(error.message)) Check the base_url of the SockJS "
                + "server."
            throw PrimusError(.handshakeFailed, message, cause: error)
        }
        guard base.isSecure || !info.isSecure else {
            let message =
                "The base_url in the answer of \(info) leads from https to http, so that the messages would be sent unencrypted. Set an https URL as "
                + "the base_url of the SockJS server."
            throw PrimusError(.handshakeFailed, message)
        }
        if base.origin == info.origin, let query = info.query, !query.isEmpty {
            base.query = base.query.map { $0.isEmpty ? query : "\($0)&\(query)" } ?? query
        }
        return base
    }

    private func rejection(of response: HTTPResponse, at place: String) -> CloseReason {
        let message = "\(place) answered with the status \(self.redacted(response.summary))"
        return .transport(TransportError(.requestRejected, message, response: response))
    }

    // MARK: Other kinds of connections

    /// Decides to continue an attempt with another version or another kind of connection.
    mutating func fallsBack(because ending: Ending) -> Bool {
        guard case .connecting = self.attempt.opening, self.connection.connected == nil, self.options.customTransformer == nil,
            ending.kind == .refused || ending.kind == .timedOut
        else { return false }
        if self.refusesVersion(ending), !self.attempt.hasChangedVersion {
            self.knowledge.engineIO = self.engineIOVersion == .v4 ? .v3 : .v4
            self.attempt.hasChangedVersion = true
        } else {
            // Each kind of connection has the same version.
            if ending.failure.serverCode == .engineIOUnsupportedVersion { return false }
            guard ending.kind == .timedOut || self.isFailureOfKind(ending) else { return false }
            self.attempt.failures.add(self.attempt.connectionKind, ending.lastProblem ?? ending.failure.message)
            if self.nextConnectionKind == nil { return false }
            if self.attempt.hasChangedVersion {
                // The version wasn't what the server refused.
                self.knowledge.engineIO = self.engineIOVersion == .v4 ? .v3 : .v4
                self.attempt.hasChangedVersion = false
            }
        }
        (self.attempt.isContinued, self.attempt.opening) = (true, .preparing(nil))
        return true
    }

    /// Whether another kind of connection may work.
    private func isFailureOfKind(_ ending: Ending) -> Bool {
        guard let error = ending.reason.transportError else { return true }
        switch error.code {
        case .upgradeRejected, .requestRejected, .protocolViolation, .proxyRejected, .closed, .reset, .timedOut, .tooLarge:
            // The application on the server refuses the client, however it connects. Another refusal may be that of a proxy.
            return ending.failure.serverCode != .engineIOForbidden && error.response.flatMap { PrimusError.refusal(in: $0) } == nil
        default: return false
        }
    }

    /// Forgets the specification of a server that doesn't speak as it says: another one may have taken its place.
    mutating func forgetSpec(after ending: Ending) {
        guard ending.kind == .refused, let error = ending.reason.transportError else { return }
        let isBusy = error.status.map { $0 >= 500 } ?? false
        guard [.protocolViolation, .upgradeRejected, .requestRejected].contains(error.code), !isBusy else { return }
        (self.knowledge.spec, self.knowledge.specProblem, self.knowledge.engineIO) = (nil, nil, nil)
    }

    /// When the connection that is being opened is given up for one of another kind, or the attempt before it.
    var kindDeadline: Instant? {
        switch self.attempt.opening {
        case .preparing(let limit), .connecting(let limit): limit?.deadline
        case .done: nil
        }
    }

    mutating func kindTimeout(now: Instant, _ effects: inout Effects<Self>) {
        var hasPassed = false
        switch self.attempt.opening {
        case .preparing(var limit?):
            hasPassed = limit.hasPassed(now: now)
            self.attempt.opening = .preparing(hasPassed ? nil : limit)
        case .connecting(var limit?):
            hasPassed = limit.hasPassed(now: now)
            self.attempt.opening = .connecting(hasPassed ? nil : limit)
        default: return
        }
        guard hasPassed else { return self.attempt.timeBegan = now }
        guard let id = self.connection.current, self.connection.connected == nil else { return }
        effects.commands.append(.abandon(id))
        self.closed(id, .openTimeout, now: now, &effects)
    }

    /// Whether a server of engine.io refuses the version: with the status 400, or with the same text after it has accepted the WebSocket, where
    /// it isn't a frame.
    private func refusesVersion(_ ending: Ending) -> Bool {
        guard self.attempt.dialect.transformer == .engineIO else { return false }
        if let code = ending.failure.serverCode { return code == .engineIOUnsupportedVersion }
        guard let error = ending.reason.transportError else { return false }
        if error.status == 400 { return true }
        if case .handshaking = self.connection.state { return error.code == .protocolViolation }
        return false
    }

    /// Decides to ask the application for other credentials, once in an attempt.
    mutating func asksForOtherCredentials(because ending: Ending) -> Bool {
        guard ending.failure.code == .unauthorized, self.attempt.refusal == nil, !self.preparation.isEmpty,
            self.connection.connected == nil
        else { return false }
        self.attempt.refusal = Refusal(
            credentials: self.attempt.credentials, endpoint: self.attempt.endpoint, error: ending.failure.forStorage)
        self.attempt.isContinued = false
        return true
    }

    // MARK: Secrets

    /// The maximum size of a text of the server, in bytes.
    private static let textLimit = 4096
    /// The maximum size of a text of the server in a message, in bytes. With what precedes it, a message has at most 1,000.
    private static let messageLimit = 700

    /// Removes from a text of the server what must not appear in errors and logs: the credentials, the cookies, the ID of a session of SockJS, and
    /// the values of the configured header fields. Returns the start of a long text.
    ///
    /// - Parameter isWhole: Whether the text isn't part of a message.
    func redacted(_ text: String, isWhole: Bool = false) -> String {
        let credentials = self.attempt.credentials
        let secrets = self.options.headers.secrets + (credentials?.headers.secrets ?? []) + (credentials?.query.map(\.value) ?? [])
        let filter = SecretFilter(secrets + self.cookies.secrets + [self.attempt.sockJSSession])
        return filter.redacted(text, limit: isWhole ? Self.textLimit : Self.messageLimit)
    }

    func redacted(_ reason: CloseReason) -> CloseReason { reason.mapText { self.redacted($0) } }

    /// The start of a text that the server chose, in one line.
    func excerpt(_ name: String) -> String {
        Excerpt.of(self.redacted(name).split(whereSeparator: \.isNewline).joined(separator: " "), limit: 200)
    }
}

extension PrimusSession.Attempt: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("endpoint", self.endpoint), ("credentials", Redacted.optional(self.credentials)), ("dialect", self.dialect)]
    }
}
