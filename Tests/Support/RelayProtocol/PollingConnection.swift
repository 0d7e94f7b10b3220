import RealtimeCore
import RealtimeSystem

/// A connection over HTTP requests: one that waits for messages, and one at a time that sends them. It shows that the driver needs no
/// WebSocket.
final class PollingConnection: WebSocketConnection {
    private enum Stage: Sendable {
        case idle
        case open(polling: Task<Void, Never>)
        case ended
    }

    private struct State: Sendable {
        var stage = Stage.idle
        var output: [String] = []
        var isSending = false
        var isClosing = false
        var isPaused = false
        var waiting = WaitingTasks()
    }

    private let endpoint: Endpoint
    private let token: String
    private let http: any HTTPTransport
    private let id: ConnectionID
    private let events: any WebSocketEvents
    private let state = Lock(State())

    init(_ endpoint: Endpoint, _ token: String, _ http: any HTTPTransport, id: ConnectionID, events: any WebSocketEvents) {
        (self.endpoint, self.token, self.http, self.id, self.events) = (endpoint, token, http, id, events)
    }

    func open() {
        self.state.withLock { state in
            guard case .idle = state.stage else { return }
            // A request is asynchronous and needs a task. `end` cancels it.
            state.stage = .open(polling: Task { await self.poll() })
        }
    }

    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { $0.output.append(String(decoding: message.bytes, as: UTF8.self)) }
    }

    func flush() {
        let wakeUps = self.state.withLock { $0.isPaused ? [] : $0.waiting.takeAll() }
        for wakeUp in wakeUps { wakeUp.resume() }
        let begins = self.state.withLock { state in
            guard !state.isSending, !state.output.isEmpty, case .open = state.stage else { return false }
            state.isSending = true
            return true
        }
        // As above: a request needs a task. It ends when everything is sent or the connection has ended.
        if begins { Task { await self.sendAll() } }
    }

    func pauseReading() { self.state.withLock { $0.isPaused = true } }
    func resumeReading() { self.state.withLock { $0.isPaused = false } }

    func close(_ code: CloseCode, reason: String) {
        self.state.withLock { state in
            state.isClosing = true
            state.output.append("close")
        }
        self.flush()
    }

    func abandon() { _ = self.end() }

    /// Ends the connection.
    ///
    /// - Returns: Whether it hadn't ended before.
    private func end() -> Bool {
        let (task, wakeUps) = self.state.withLock { state -> (Task<Void, Never>?, [WakeUp]) in
            guard case .open(let task) = state.stage else { return (nil, []) }
            state.stage = .ended
            return (task, state.waiting.takeAll())
        }
        task?.cancel()
        for wakeUp in wakeUps { wakeUp.resume() }
        return task != nil
    }

    private func end(_ reason: CloseReason) {
        if self.end() { self.events.closed(self.id, reason) }
    }

    private var isOpen: Bool { self.state.withLock { if case .open = $0.stage { true } else { false } } }

    private func post(_ action: String, _ body: String = "") async throws(TransportError) -> HTTPResponse {
        let url = RelayClient.url(self.endpoint, action, self.token)
        let response = try await self.http.send(HTTPRequest("POST", url, body: Array(body.utf8)))
        guard response.head.status == 200 else {
            throw TransportError(.upgradeRejected, "\(action) was answered with the status \(response.head.status).", response: response)
        }
        return response
    }

    private func poll() async {
        var isFirst = true
        while self.isOpen {
            do throws(TransportError) {
                let response = try await self.post("poll")
                guard self.isOpen else { return }
                if isFirst { self.events.opened(self.id, head: response.head) }
                isFirst = false
                let lines = String(decoding: response.body, as: UTF8.self).split(separator: "\n").map(String.init)
                if lines.contains("close") { return self.end(.peer(.normal, "")) }
                if !lines.isEmpty { self.events.received(self.id, MessageBatch(lines.map { WebSocketMessage.text($0) })) }
            } catch {
                return self.end(.transport(error))
            }
            await self.waitWhilePaused()
        }
    }

    private func waitWhilePaused() async {
        let id = WaitingTasks.ID()
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.isPaused, case .open = state.stage else { return false }
                state.waiting.add(id, wakeUp)
                return true
            }
        } onCancel: {
            self.state.withLock { $0.waiting.take(id) }
        }
    }

    private func sendAll() async {
        while let lines = self.takeOutput() {
            do throws(TransportError) {
                _ = try await self.post("send", lines.joined(separator: "\n"))
                if lines.last == "close" { return self.end(.peer(.normal, "")) }
            } catch {
                return self.end(.transport(error))
            }
        }
    }

    private func takeOutput() -> [String]? {
        self.state.withLock { state in
            guard !state.output.isEmpty, case .open = state.stage else {
                state.isSending = false
                return nil
            }
            defer { state.output = [] }
            return state.output
        }
    }
}
