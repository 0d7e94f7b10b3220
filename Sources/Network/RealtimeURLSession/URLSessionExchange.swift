internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// One request and its response, over a task of the session.
final class URLSessionExchange: TimedExchange, TaskHandler {
    private struct State: Sendable {
        /// From the creation until the end.
        var events: (any HTTPExchangeEvents)?
        var task: URLSessionDataTask?
        var hasHead = false
        /// Whether the owner has paused reading.
        var isPaused = false
        /// Whether the task is suspended, or about to be: suspensions are counted.
        var isSuspended = false
        /// Whether the task was suspended before.
        var wasSuspended = false
    }

    /// Keeps the session valid.
    private let host: SharedURLSession
    private let request: HTTPRequest
    private let id: ExchangeID
    private let state: Lock<State>

    var time: (any TimeSource)? { SystemTime.shared }

    init(_ host: SharedURLSession, _ request: HTTPRequest, _ id: ExchangeID, _ events: any HTTPExchangeEvents) {
        self.host = host
        self.request = request
        self.id = id
        self.state = Lock(State(events: events))
    }

    // MARK: The owner's side

    func start() {
        var urlRequest: URLRequest
        do throws(TransportError) {
            urlRequest = try URLRequest(self.request.endpoint, self.request.headers)
        } catch {
            return self.end(error)
        }
        urlRequest.httpMethod = self.request.method
        if !self.request.body.isEmpty { urlRequest.httpBody = Data(self.request.body) }
        urlRequest.timeoutInterval = max(0.001, Double(self.request.idleTimeout.nanoseconds) / 1e9)
        let task = self.host.session.dataTask(with: urlRequest)
        let isNew = self.state.withLock { state in
            guard state.events != nil, state.task == nil else { return false }
            state.task = task
            return true
        }
        guard isNew else { return task.cancel() }
        self.host.route(task, to: self)
        task.resume()
    }

    func pauseReading() {
        self.state.withLock { $0.isPaused = true }
        self.updateSuspension()
    }

    func resumeReading() {
        self.state.withLock { $0.isPaused = false }
        self.updateSuspension()
    }

    func cancel() {
        let state = self.state.withLock { state in
            defer { state.events = nil }
            return state
        }
        state.task?.cancel()
    }

    /// Suspends or resumes the task, on the session's queue, so that the order of suspensions is that of the decisions.
    private func updateSuspension() {
        #if canImport(FoundationNetworking)
        // In swift-corelibs-foundation, suspending a task drops its connection, and resuming it sends the request again.
        #else
        self.host.perform {
            let task = self.state.withLock { state -> URLSessionDataTask? in
                guard state.isPaused != state.isSuspended, state.events != nil else { return nil }
                state.isSuspended = state.isPaused
                state.wasSuspended = true
                return state.task
            }
            guard let task else { return }
            if self.state.withLock({ $0.isSuspended }) { task.suspend() } else { task.resume() }
        }
        #endif
    }

    // MARK: Events of the session

    func opened(_ head: HTTPResponseHead) {}

    func closed(_ code: CloseCode, _ reason: String) {}

    /// Only the first head counts: each part of a `multipart/x-mixed-replace` response brings another one.
    ///
    /// A head that follows a pause means that the system has restarted the request. The body would then contain its beginning twice, so the
    /// response fails.
    func received(_ head: HTTPResponseHead) {
        let (isFirst, isRestart, events) = self.state.withLock { state in
            defer { state.hasHead = true }
            return (!state.hasHead, state.hasHead && state.wasSuspended, state.events)
        }
        if isFirst { return events?.received(head, of: self.id) ?? () }
        guard isRestart else { return }
        let task = self.state.withLock { $0.task }
        let origin = self.request.endpoint.origin
        self.end(TransportError(.reset, "\(origin) restarted its response after a pause; the body that was read is incomplete."))
        task?.cancel()
    }

    func received(_ data: Data) {
        guard !data.isEmpty else { return }
        self.state.withLock { $0.events }?.received([UInt8](data), of: self.id)
    }

    func completed(_ response: HTTPURLResponse?, _ error: (any Error)?) {
        if let error { return self.end(TransportError(error, self.request.endpoint)) }
        let hasHead = self.state.withLock { $0.hasHead }
        let origin = self.request.endpoint.origin
        self.end(hasHead ? nil : TransportError(.closed, "\(origin) closed the connection without sending a response."))
    }

    private func end(_ error: TransportError?) { self.state.withLock { $0.events.take() }?.ended(self.id, error) }
}
