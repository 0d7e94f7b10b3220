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
                return exchange.fail(InMemoryNetwork.unreachable(request.endpoint))
            case .up: break
            }
            guard let handler = network.listener(at: request.endpoint)?.handler else {
                return exchange.fail(InMemoryNetwork.refused(request.endpoint))
            }
            let head = HTTPRequestHead(method: request.method, target: request.endpoint.target, headers: request.headers)
            handler.received(head, body: request.body, responder: exchange)
        }
        return HTTPStreamedResponse(try await exchange.head(), body: Body(exchange: exchange))
    }

    /// A body that cancels the exchange when it is released.
    final class Body: HTTPBody {
        let exchange: InMemoryExchange

        init(exchange: InMemoryExchange) {
            self.exchange = exchange
        }

        func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

        deinit { self.exchange.disconnect() }
    }
}

/// A request and its response, shared by the client and the server.
final class InMemoryExchange: HTTPResponder, TimerClient {
    private struct State: Sendable {
        var head: HTTPResponseHead?
        var chunks: [[UInt8]] = []
        var hasEnded = false
        var failure: TransportError?
        var waiting: WakeUp?
        var onDisconnect: (@Sendable () -> Void)?
        var isDisconnected = false
    }

    private let network: InMemoryNetwork
    private let request: HTTPRequest
    private let state = Lock(State())

    init(_ network: InMemoryNetwork, _ request: HTTPRequest) {
        self.network = network
        self.request = request
    }

    // MARK: Client

    func head() async throws(TransportError) -> HTTPResponseHead {
        while true {
            let (head, failure) = self.state.withLock { ($0.head, $0.failure) }
            if let head { return head }
            if let failure { throw failure }
            try await self.wait { $0.head != nil }
        }
    }

    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            let (chunk, hasEnded, failure) = self.state.withLock { state -> ([UInt8]?, Bool, TransportError?) in
                (state.chunks.isEmpty ? nil : state.chunks.removeFirst(), state.hasEnded, state.failure)
            }
            if let chunk { return chunk }
            if let failure { throw failure }
            if hasEnded { return nil }
            try await self.wait { !$0.chunks.isEmpty || $0.hasEnded }
        }
    }

    func disconnect() {
        let action = self.state.withLock { state -> (@Sendable () -> Void)? in
            guard !state.isDisconnected else { return nil }
            state.isDisconnected = true
            return state.hasEnded ? nil : state.onDisconnect.take()
        }
        action?()
    }

    func fail(_ error: TransportError) {
        self.update { $0.failure = $0.failure ?? error }
        self.disconnect()
    }

    func timerFired() {
        self.fail(TransportError(.timedOut, "No response from \(self.request.endpoint) within \(self.request.idleTimeout)."))
    }

    private func wait(until isReady: (State) -> Bool) async throws(TransportError) {
        self.network.time.schedule(self, at: self.network.time.now.advanced(by: self.request.idleTimeout))
        await suspend { wakeUp in
            self.state.withLock { state in
                guard !isReady(state), state.failure == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } onCancel: {
            self.state.withLock { $0.waiting.take() }
        }
        self.network.time.schedule(self, at: nil)
        if Task.isCancelled {
            let error = TransportError(.cancelled, "The request to \(self.request.endpoint) was cancelled.")
            self.fail(error)
            throw error
        }
    }

    // MARK: Server

    func respond(_ response: HTTPResponse) {
        self.update { state in
            guard state.head == nil else { return }
            state.head = response.head
            if !response.body.isEmpty { state.chunks.append(response.body) }
            state.hasEnded = true
        }
    }

    func begin(_ head: HTTPResponseHead) { self.update { $0.head = $0.head ?? head } }

    func write(_ bytes: [UInt8]) {
        self.update { if $0.head != nil, !$0.hasEnded, !bytes.isEmpty { $0.chunks.append(bytes) } }
    }

    func end() { self.update { if $0.head != nil { $0.hasEnded = true } } }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        let isDisconnected = self.state.withLock { state in
            if !state.isDisconnected { state.onDisconnect = action }
            return state.isDisconnected
        }
        if isDisconnected { action() }
    }

    private func update(_ body: (inout State) -> Void) {
        let wakeUp = self.state.withLock { state in
            body(&state)
            return state.waiting.take()
        }
        wakeUp?.resume()
    }
}
