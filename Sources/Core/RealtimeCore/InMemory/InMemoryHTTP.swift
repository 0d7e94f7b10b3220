import RealtimeSystem

struct InMemoryHTTPTransport: HTTPTransport {
    let network: InMemoryNetwork

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let exchange = InMemoryExchange(self.network, request)
        self.network.submit { [network] in
            switch network.condition {
            // The exchange's timer ends the wait.
            case .silent: return
            case .down:
                return exchange.fail(
                    TransportError(.unreachable, "No route to \(request.endpoint.origin): the in-memory network is down."))
            case .up: break
            }
            guard let handler = network.listener(at: request.endpoint)?.handler else {
                let message = "Connection refused: no server is listening at \(request.endpoint.origin) on the in-memory network."
                return exchange.fail(TransportError(.refused, "\(message) Start the server first."))
            }
            let head = HTTPRequestHead(method: request.method, target: request.endpoint.requestTarget, headers: request.headers)
            handler.received(head, body: request.body, responder: exchange)
        }
        return HTTPStreamedResponse(try await exchange.head(), body: Body(exchange: exchange))
    }

    /// The body. Releasing it notifies the server that the client has disconnected.
    final class Body: HTTPBody {
        let exchange: InMemoryExchange

        init(exchange: InMemoryExchange) {
            self.exchange = exchange
        }

        func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

        deinit { self.exchange.disconnect() }
    }
}

/// One request and its response: the client's reader and the server's responder in one object.
final class InMemoryExchange: HTTPResponder, TimerClient {
    private struct State: Sendable {
        var response: ResponseBuffer
        var onDisconnect: (@Sendable () -> Void)?
        var hasClientDisconnected = false
    }

    private let network: InMemoryNetwork
    private let request: HTTPRequest
    private let state: Lock<State>

    init(_ network: InMemoryNetwork, _ request: HTTPRequest) {
        self.network = network
        self.request = request
        self.state = Lock(State(response: ResponseBuffer(from: request.endpoint)))
    }

    // MARK: Client

    func head() async throws(TransportError) -> HTTPResponseHead {
        while true {
            if let head = try self.state.withLock({ state throws(TransportError) in try state.response.readHead() }) { return head }
            await self.wait()
        }
    }

    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            switch try self.state.withLock({ state throws(TransportError) in try state.response.readBody() }) {
            case .bytes(let bytes): return bytes
            case .end: return nil
            case .pending: await self.wait()
            }
        }
    }

    /// Notifies the server that the client has disconnected, unless the response is complete.
    func disconnect() { self.disconnect(nil) }

    /// Ends the response with an error, for both sides.
    func fail(_ error: TransportError) { self.disconnect(error) }

    private func disconnect(_ error: TransportError?) {
        let (reader, action) = self.state.withLock { state -> (WakeUp?, (@Sendable () -> Void)?) in
            if let error { state.response.end(error) }
            state.hasClientDisconnected = true
            return (state.response.takeReadyReader(), state.onDisconnect.take())
        }
        if let reader { DelayedWakeUps.resume(reader) }
        action?()
    }

    func timerFired() {
        self.fail(
            TransportError(
                .timedOut,
                "\(self.request.endpoint) timed out: no response within \(self.request.idleTimeout). Check the server, or increase idleTimeout."
            ))
    }

    private func wait() async {
        self.network.time.schedule(self, at: self.network.time.now.advanced(by: self.request.idleTimeout))
        await suspend { wakeUp in
            self.state.withLock { $0.response.suspend(wakeUp) }
        } onCancel: {
            // Only the flag: the canceller may hold a lock that the server's action takes.
            let error = TransportError(.cancelled, "The request to \(self.request.endpoint) was cancelled.")
            return self.state.withLock { state in
                state.response.cancel(error)
                return state.response.takeReadyReader()
            }
        }
        self.network.time.schedule(self, at: nil)
        if self.state.withLock({ $0.response.isCancelled }) { self.disconnect() }
    }

    // MARK: Server

    func respond(_ response: HTTPResponse) {
        self.change { buffer in
            guard buffer.head == nil else { return }
            _ = buffer.receiveHead(response.head)
            _ = buffer.receive(response.body)
            buffer.end(nil)
        }
    }

    func begin(_ head: HTTPResponseHead) { self.change { _ = $0.receiveHead(head) } }

    func write(_ bytes: [UInt8]) {
        self.change { if $0.head != nil { _ = $0.receive(bytes) } }
    }

    func end() { self.change { if $0.head != nil { $0.end(nil) } } }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        let hasDisconnected = self.state.withLock { state in
            if !state.hasClientDisconnected, !state.response.isComplete { state.onDisconnect = action }
            return state.hasClientDisconnected
        }
        if hasDisconnected { action() }
    }

    private func change(_ body: (inout ResponseBuffer) -> Void) {
        let (reader, released) = self.state.withLock { state -> (WakeUp?, (@Sendable () -> Void)?) in
            body(&state.response)
            return (state.response.takeReadyReader(), state.response.isComplete ? state.onDisconnect.take() : nil)
        }
        // What the action captures may be released here, outside the lock.
        _ = released
        if let reader { DelayedWakeUps.resume(reader) }
    }
}
