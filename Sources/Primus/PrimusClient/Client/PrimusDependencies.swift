import PrimusWire
import RealtimeCore

extension PrimusConfiguration {
    /// The environment of a driver: how to connect, and how to perform the session's work.
    func dependencies(_ cookies: RedirectingHTTP.Cookies) -> SessionDriver<PrimusSession>.Dependencies {
        let (transports, trace) = (self.transports, self.messagesOverHTTPTrace)
        let http = RedirectingHTTP(transports, cookies: cookies)
        let log = self.log
        // The path of a request of SockJS contains the ID of the session, which gives access to its messages.
        let redacted = LogSink(minimumLevel: log.minimumLevel) { log.log($0, $1, PrimusFrameText.redactSockJSSession($2)) }
        let environment = HTTPMessageConnection.Environment(transports, cookies: cookies, log: redacted, subsystem: "primus")
        let connect: @Sendable (PrimusRequest, ConnectionID, any MessageEvents) -> any MessageConnection = { request, id, events in
            switch request.connection {
            case .webSocket(let request): return transports.webSocket.makeConnection(request, id: id, events: events)
            case .http(let rules):
                guard let trace else { return HTTPMessageConnection(rules, in: environment, id: id, events: events) }
                let connection = HTTPMessageConnection(rules, in: environment, id: id, events: TracedEvents(events, trace))
                return TracedConnection(connection, id, trace)
            }
        }
        return .init(
            connect: { request, id, events, driver in
                guard request.customParser != nil || request.customTransformer != nil else {
                    return connect(request, id, events)
                }
                // The application's code runs outside the driver's lock.
                let translation = PrimusTranslation(request)
                let translated = PrimusTranslatedEvents(events, translation) { id, message, error in
                    driver.step { $0.received(unreadable: message, error, on: id, now: $1, &$2) }
                }
                return PrimusTranslatedConnection(connect(request, id, translated), translation)
            },
            time: transports.time, log: self.log, describe: { _ in { PrimusFrameText.text($0, $1) } }, subsystem: "primus"
        ) { work, id, driver in
            switch work {
            case .prepare(let preparation): driver.perform(id) { .prepared(await preparation.run()) }
            case .request(let request):
                driver.perform(id) {
                    let result = await Result(
                        calling: { () async throws(TransportError) in try await http.sendFollowingRedirects(request, bodyLimit: 64 << 10) }
                    ) { $0 }
                    return .response(result.map(\.response), from: (try? result.get())?.endpoint)
                }
            case .retryDelay(let policy, let context): driver.perform(id) { .retryDelay(await Self.delay(policy, context)) }
            }
        }
    }

    private static func delay(_ policy: PrimusRetryPolicy, _ context: PrimusRetryContext) async -> Result<Duration?, PrimusError> {
        guard case .custom(let delay) = policy else { return .success(nil) }
        return await Result(calling: { () async throws in try await delay(context) }) { error in
            let message = "The policy for reconnects threw an error of the type \(type(of: error)), so the client doesn't reconnect."
            return PrimusError(.connectionLost, message, cause: error)
        }
    }
}
