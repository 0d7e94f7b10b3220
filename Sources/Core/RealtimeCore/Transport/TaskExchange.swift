import RealtimeSystem

/// An exchange over a transport that only has ``HTTPTransport/open(_:)``.
///
/// ```
///   new ──start──▶ running ──end of the task──▶ ended
///    └───────────────┴──────────cancel───────────▲
/// ```
final class TaskExchange: HTTPExchange {
    private enum Phase: Sendable {
        case new(any HTTPExchangeEvents)
        case running(any HTTPExchangeEvents, Task<Void, Never>?)
        case ended
    }

    private struct State: Sendable {
        var phase: Phase
        var isPaused = false
        /// The task, while it waits for the end of a pause.
        var waiting: WakeUp?

        var events: (any HTTPExchangeEvents)? {
            if case .running(let events, _) = self.phase { events } else { nil }
        }
    }

    private let request: HTTPRequest
    private let transport: any HTTPTransport
    private let id: ExchangeID
    private let state: Lock<State>

    init(_ request: HTTPRequest, over transport: any HTTPTransport, _ id: ExchangeID, _ events: any HTTPExchangeEvents) {
        self.request = request
        self.transport = transport
        self.id = id
        self.state = Lock(State(phase: .new(events)))
    }

    func start() {
        let isNew = self.state.withLock { state in
            guard case .new(let events) = state.phase else { return false }
            state.phase = .running(events, nil)
            return true
        }
        guard isNew else { return }
        // The transport only has an asynchronous method, which needs a task. It ends with the response, or when the exchange is cancelled.
        let task = Task { await self.run() }
        let isCancelled = self.state.withLock { state in
            guard let events = state.events else { return true }
            state.phase = .running(events, task)
            return false
        }
        if isCancelled { task.cancel() }
    }

    func pauseReading() { self.state.withLock { $0.isPaused = true } }

    func resumeReading() {
        let waiting = self.state.withLock { state in
            state.isPaused = false
            return state.waiting.take()
        }
        if let waiting { DelayedWakeUps.resume(waiting) }
    }

    func cancel() {
        // The phase is released outside the lock, because the events may be released with it.
        let phase = self.state.withLock { state in
            defer { state.phase = .ended }
            return state.phase
        }
        if case .running(_, let task) = phase { task?.cancel() }
    }

    private func run() async {
        do throws(TransportError) {
            let response = try await self.transport.open(self.request)
            self.events?.received(response.head, of: self.id)
            await self.waitForResume()
            while let chunk = try await response.body.next() {
                self.events?.received(chunk, of: self.id)
                await self.waitForResume()
            }
            self.end(nil)
        } catch {
            self.end(error)
        }
    }

    private var events: (any HTTPExchangeEvents)? { self.state.withLock { $0.events } }

    private func waitForResume() async {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.isPaused, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } onCancel: {
            self.state.withLock { $0.waiting.take() }
        }
    }

    private func end(_ error: TransportError?) {
        let phase = self.state.withLock { state in
            defer { state.phase = .ended }
            return state.phase
        }
        if case .running(let events, _) = phase { events.ended(self.id, error) }
    }
}
