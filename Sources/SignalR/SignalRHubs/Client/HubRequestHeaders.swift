import RealtimeCore
import RealtimeSystem

/// The header fields of the requests of a connection over HTTP: the current ones of the session for each request.
final class HubRequestHeaders: Sendable {
    private let id: ConnectionID
    private weak let driver: SessionDriver<HubSession>?
    /// The requests that end a connection follow when the session has forgotten it.
    private let last: Lock<HTTPHeaders>

    init(_ headers: HTTPHeaders, of id: ConnectionID, _ driver: SessionDriver<HubSession>) {
        self.id = id
        self.driver = driver
        self.last = Lock(headers)
    }

    /// Returns the header fields of a request, after the application was asked for another token if the previous ones were refused.
    func headers(
        _ areRefused: Bool, _ completion: @escaping @Sendable (Result<HTTPHeaders, TransportError>) -> Void
    ) {
        guard areRefused, let driver else { return completion(.success(self.current)) }
        // The wait for the application's answer needs a task, which ends with it, or with the connection.
        Task {
            do throws(HubError) {
                _ = try await driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                    session.refreshToken(of: self.id, waiter, now: now, &effects)
                }
                completion(.success(self.current))
            } catch {
                completion(.failure(error.transportError ?? TransportError(.closed, error.message)))
            }
        }
    }

    private var current: HTTPHeaders {
        let headers = self.driver?.read { $0.requestHeaders(of: self.id) }
        return self.last.withLock { last in
            if let headers = headers ?? nil { last = headers }
            return last
        }
    }
}
