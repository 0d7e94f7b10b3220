package import RealtimeCore

/// A client of the relay protocol: a driver, and how to connect and to perform the session's work over any transports.
package struct RelayClient: Sendable {
    /// Decides whether to reconnect, after a number of failures.
    package typealias RetryPolicy = @Sendable (_ failures: Int) async -> ReconnectDecision

    package let driver: SessionDriver<RelaySession>

    package init(
        _ endpoint: Endpoint, over transports: Transports, policy: ConnectionPolicy = ConnectionPolicy(),
        heartbeat: HeartbeatPolicy = RelaySession.heartbeat, seed: UInt64 = 1, log: LogSink = .none,
        retry: @escaping RetryPolicy = { _ in .afterBackoff() }
    ) {
        let (http, time) = (transports.http, transports.time)
        let cookies = RedirectingHTTP.Cookies()
        let dependencies = SessionDriver<RelaySession>.Dependencies(
            connect: { request, id, events, _ in
                Self.connect(request, to: endpoint, over: transports, cookies, log: log, id: id, events: events)
            }, time: time, log: log,
            subsystem: "relay"
        ) { work, id, driver in
            // Work is asynchronous and needs a task. The driver cancels it when its result is no longer needed.
            let task = Task {
                switch work {
                case .negotiate: driver.workFinished(id, .negotiated(await Self.negotiate(endpoint, http)))
                case .ask(let failures): driver.workFinished(id, .decided(await retry(failures)))
                case .upload(let items):
                    for item in items { driver.workProgressed(id, item) }
                    driver.workFinished(id, .uploaded)
                }
            }
            return { task.cancel() }
        }
        self.driver = SessionDriver(RelaySession(policy: policy, heartbeat: heartbeat, seed: seed), in: dependencies)
    }

    /// Creates a connection of any kind.
    package static func connect(
        _ request: RelaySession.Request, to endpoint: Endpoint, over transports: Transports, _ cookies: RedirectingHTTP.Cookies,
        log: LogSink = .none, id: ConnectionID, events: any MessageEvents
    ) -> any MessageConnection {
        switch request.kind {
        case .socket:
            transports.webSocket.makeConnection(
                WebSocketRequest(self.url(endpoint.webSocket, "socket", request.token)), id: id, events: events)
        case .polling:
            HTTPMessageConnection(
                RelayPollingRules(endpoint, request.token), in: .init(transports, cookies: cookies, log: log, subsystem: "relay"), id: id,
                events: events)
        case .stream:
            HTTPMessageConnection(
                RelayStreamRules(endpoint, request.token), in: .init(transports, cookies: cookies, log: log, subsystem: "relay"), id: id,
                events: events)
        }
    }

    static func url(_ endpoint: Endpoint, _ action: String, _ token: String) -> Endpoint {
        var endpoint = endpoint.appending(path: "relay/\(action)")
        endpoint.addQuery("token", token)
        return endpoint
    }

    package static func negotiate(
        _ endpoint: Endpoint, _ http: any HTTPTransport
    ) async -> Result<(token: String, kinds: [RelaySession.Kind]), TransportError> {
        do throws(TransportError) {
            let response = try await http.send(HTTPRequest("POST", endpoint.appending(path: "relay/negotiate")))
            guard response.head.status == 200 else {
                let message = "The negotiation was answered with the status \(response.head.status)."
                return .failure(TransportError(.upgradeRejected, message, response: response))
            }
            let words = String(decoding: response.body, as: UTF8.self).split(separator: " ").map(String.init)
            let kinds = words.dropFirst().compactMap(RelaySession.Kind.init(rawValue:))
            guard let token = words.first, !kinds.isEmpty else {
                return .failure(TransportError(.protocolViolation, "The response to the negotiation is empty."))
            }
            return .success((token, kinds))
        } catch {
            return .failure(error)
        }
    }

    /// Calls a closure with all events from now on.
    package func observe(
        schedule: @escaping CallbackSchedule = { $0() }, _ callback: @escaping @Sendable (RelaySession.Event) -> Void
    ) -> CallbackObservation {
        self.driver.observe(.pauseReading(1024), lifetime: .client, schedule: schedule) {
            $1.append(contentsOf: $0)
        } register: { session, id, effects in
            session.observe(id, &effects)
        } callback: {
            callback($0)
        }
    }

    /// Uploads items, and returns the number that the server has received.
    package func upload(_ items: [String], limit: Duration? = nil) async throws(RelaySession.Failure) -> Int {
        try await self.driver.awaitResult(limit: limit) { $0.upload(items, $1, &$3) }
    }
}
