import RealtimeSystem

struct InMemoryHTTPTransport: HTTPTransport {
    let network: InMemoryNetwork

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let exchange = InMemoryExchange(self.network, request)
        self.network.submit { [network] in
            switch network.condition {
            case .silent: return
            case .down:
                return exchange.fail(
                    TransportError(.unreachable, "There is no way to \(request.endpoint.origin): the in-memory network is down."))
            case .up: break
            }
            guard let handler = network.listener(at: request.endpoint)?.handler else {
                let why = "Nothing listens at \(request.endpoint.origin) on the in-memory network; start the server first."
                return exchange.fail(TransportError(.refused, why))
            }
            let head = HTTPRequestHead(method: request.method, target: request.endpoint.target, headers: request.headers)
            handler.received(head, body: request.body, responder: exchange)
        }
        return HTTPStreamedResponse(try await exchange.head(), body: Body(exchange: exchange))
    }

    /// Dropping it tells the server.
    final class Body: HTTPBody {
        let exchange: InMemoryExchange

        init(exchange: InMemoryExchange) {
            self.exchange = exchange
        }

        func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

        deinit { self.exchange.leave() }
    }
}

/// One request and its answer, from both sides.
final class InMemoryExchange: HTTPResponder, TimerClient {
    private struct State: Sendable {
        var head: HTTPResponseHead?
        var pieces: [[UInt8]] = []
        var ended = false
        var failure: TransportError?
        var waiting: WakeUp?
        var onDisconnect: (@Sendable () -> Void)?
        var clientHasLeft = false
    }

    private let network: InMemoryNetwork
    private let request: HTTPRequest
    private let state = Lock(State())

    init(_ network: InMemoryNetwork, _ request: HTTPRequest) {
        self.network = network
        self.request = request
    }

    // MARK: The client

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
            let (piece, isOver, failure) = self.state.withLock { state -> ([UInt8]?, Bool, TransportError?) in
                (state.pieces.isEmpty ? nil : state.pieces.removeFirst(), state.ended, state.failure)
            }
            if let piece { return piece }
            if let failure { throw failure }
            if isOver { return nil }
            try await self.wait { !$0.pieces.isEmpty || $0.ended }
        }
    }

    func leave() {
        let action = self.state.withLock { state -> (@Sendable () -> Void)? in
            guard !state.clientHasLeft else { return nil }
            state.clientHasLeft = true
            return state.ended ? nil : state.onDisconnect.take()
        }
        action?()
    }

    func fail(_ error: TransportError) {
        self.change { $0.failure = $0.failure ?? error }
        self.leave()
    }

    func timerFired() {
        self.fail(TransportError(.timedOut, "\(self.request.endpoint) did not answer within \(self.request.idleTimeout)."))
    }

    private func wait(until isReady: (State) -> Bool) async throws(TransportError) {
        self.network.time.schedule(self, at: self.network.time.now.advanced(by: self.request.idleTimeout))
        await suspend { wakeUp in
            self.state.withLock { state in
                guard !isReady(state), state.failure == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } withdraw: {
            self.state.withLock { $0.waiting.take() }
        }
        self.network.time.schedule(self, at: nil)
        if Task.isCancelled {
            let error = TransportError(.cancelled, "The request to \(self.request.endpoint) was taken back.")
            self.fail(error)
            throw error
        }
    }

    // MARK: The server

    func respond(_ response: HTTPResponse) {
        self.change { state in
            guard state.head == nil else { return }
            state.head = response.head
            if !response.body.isEmpty { state.pieces.append(response.body) }
            state.ended = true
        }
    }

    func begin(_ head: HTTPResponseHead) { self.change { $0.head = $0.head ?? head } }

    func write(_ bytes: [UInt8]) {
        self.change { if $0.head != nil, !$0.ended, !bytes.isEmpty { $0.pieces.append(bytes) } }
    }

    func end() { self.change { if $0.head != nil { $0.ended = true } } }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        let hasLeft = self.state.withLock { state in
            if !state.clientHasLeft { state.onDisconnect = action }
            return state.clientHasLeft
        }
        if hasLeft { action() }
    }

    private func change(_ body: (inout State) -> Void) {
        let wakeUp = self.state.withLock { state in
            body(&state)
            return state.waiting.take()
        }
        wakeUp?.resume()
    }
}
