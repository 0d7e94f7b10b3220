import PusherWire
import RealtimeCore

/// The environment of a session: its connections and its work.
extension PusherClient {
    static func dependencies(of configuration: PusherConfiguration) -> SessionDriver<PusherSession>.Dependencies {
        // One jar for all requests of the client, also after its settings have changed.
        let cookies = RedirectingHTTP.Cookies()
        return SessionDriver<PusherSession>.Dependencies(
            transport: configuration.transports.webSocket, time: configuration.transports.time, log: configuration.log,
            // Omits the secrets of the request that opened the connection. Later connections may have others.
            describe: { request in FrameTrace(secrets: request.headers.secrets).text }, subsystem: "pusher",
            perform: { Self.perform($0, $1, cookies, for: $2) })
    }

    /// Performs work that a session has requested.
    ///
    /// - Returns: A closure that cancels the work, or `nil` if it needs no task.
    private static func perform(
        _ work: PusherSession.Work, _ id: WorkID, _ cookies: RedirectingHTTP.Cookies, for driver: SessionDriver<PusherSession>
    ) -> (@Sendable () -> Void)? {
        // Weak, because a closure of the application may keep it and never answer.
        let finish: @Sendable (PusherSession.WorkResult) -> Void = { [weak driver] in driver?.workFinished(id, $0) }
        switch work {
        case .channel(let request, let authorizer, let configuration):
            let http = RedirectingHTTP(configuration.transports, cookies: cookies)
            return authorizer.step(for: request, key: configuration.key, over: http)
                .start { finish(.channel($0)) }
        case .batch(let members, let endpoint, let configuration):
            let http = RedirectingHTTP(configuration.transports, cookies: cookies)
            let step = WorkStep.task { await endpoint.authorize(batch: members.map(\.request), over: http) }
            return step.start { finish(.batch(zip(members, $0).map { ($0.work, $1) })) }
        case .user(let socketID, let authenticator, let configuration):
            let http = RedirectingHTTP(configuration.transports, cookies: cookies)
            return authenticator.step(socketID: socketID, key: configuration.key, over: http)
                .start { finish(.user($0)) }
        case .retryDelay(let context, .asynchronous(let delay)):
            return WorkStep.task { await delay(context) }.start { finish(.retryDelay($0)) }
        case .retryDelay(let context, .direct(let decide)):
            return WorkStep.now { decide(context, $0) }.start { finish(.retryDelay($0)) }
        }
    }
}
