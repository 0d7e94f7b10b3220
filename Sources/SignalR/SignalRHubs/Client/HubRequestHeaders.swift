import RealtimeCore
import RealtimeSystem

/// The header fields of the requests of a connection over HTTP: the current ones of the session for each request.
final class HubRequestHeaders: Sendable {
    private let id: ConnectionID
    private weak let driver: SessionDriver<HubSession>?
    /// The requests that end a connection follow when the session has forgotten it.
    private let last: Lock<HTTPMessageConnection.Environment.Fields>

    init(_ headers: HTTPHeaders, of id: ConnectionID, _ driver: SessionDriver<HubSession>) {
        self.id = id
        self.driver = driver
        self.last = Lock((headers, 0))
    }

    /// Returns the header fields of a request, after the application was asked for another token if the current ones were refused.
    ///
    /// Two requests may be refused with the same token, one after the other. The first one causes another token, which is then the other's.
    func headers(
        refused: Int?, _ completion: @escaping @Sendable (Result<HTTPMessageConnection.Environment.Fields, TransportError>) -> Void
    ) {
        let current = self.current
        guard current.generation == refused, let driver else { return completion(.success(current)) }
        // The wait for the application's answer needs a task, which ends with it, or with the connection.
        Task {
            do throws(HubError) {
                _ = try await driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                    session.refreshToken(of: self.id, refused: current.generation, waiter, now: now, &effects)
                }
                completion(.success(self.current))
            } catch {
                completion(.failure(error.transportError ?? TransportError(.closed, error.message)))
            }
        }
    }

    private var current: HTTPMessageConnection.Environment.Fields {
        let fields = self.driver?.read { $0.requestHeaders(of: self.id) }
        return self.last.withLock { last in
            if let fields = fields ?? nil { last = fields }
            return last
        }
    }
}
