internal import RealtimeSystem
internal import RealtimeCore

/// One request and its response, on a new connection or on one that was idle.
///
/// ```
///   new ──start──▶ running ──end of the response, error──▶ ended
///    └───────────────┴───────────── cancel ────────────────▲
/// ```
///
/// If the server closes a connection that was idle before it sends any byte of the response, a request that may be repeated is sent once
/// more on a new connection.
final class HTTPClientExchange: TimedExchange {
    private enum Phase: Sendable {
        case new
        /// There is no connection before the request was checked, and while an idle connection is taken.
        case running(HTTPClientConnection?)
        case ended
    }

    private struct State: Sendable {
        var phase = Phase.new
        /// Until the end of the exchange.
        var events: (any HTTPExchangeEvents)?
        var isOpen = false
        /// The connection was idle before.
        var isReused = false
        var hasHead = false
        var isPaused = false
        /// The number of bytes of the request that were unsent when the timer last fired.
        var unsent = 0
        /// When to give up, unless bytes are sent or received before.
        var idleLimit = PatientLimit.none

        var connection: HTTPClientConnection? {
            if case .running(let connection) = self.phase { connection } else { nil }
        }
    }

    private let request: HTTPRequest
    private let connector: SocketConnector
    /// `nil` if keep-alive is off.
    private let pool: ConnectionPoolReference?
    private let id: ExchangeID
    private let idleTimeout: Int64
    private let state: Lock<State>
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var decoder: LoopBound<HTTPResponseDecoder>

    private var loop: EventLoop { self.connector.loop }
    var time: (any TimeSource)? { self.loop }

    init(
        _ request: HTTPRequest, over connector: SocketConnector, _ pool: ConnectionPoolReference?, _ id: ExchangeID,
        _ events: any HTTPExchangeEvents
    ) {
        self.request = request
        self.connector = connector
        self.pool = pool
        self.id = id
        self.idleTimeout = request.idleTimeout.nanoseconds
        self.decoder = LoopBound(HTTPResponseDecoder(method: request.method))
        self.state = Lock(State(events: events))
    }

    // MARK: The owner's side

    func start() {
        let isNew = self.state.withLock { state in
            guard case .new = state.phase else { return false }
            state.phase = .running(nil)
            return true
        }
        if isNew { self.connect(mayReuse: true) }
    }

    private func connect(mayReuse: Bool) {
        do throws(TransportError) {
            try self.tryToConnect(mayReuse: mayReuse)
        } catch {
            self.end(error)
        }
    }

    private func tryToConnect(mayReuse: Bool) throws(TransportError) {
        let endpoint = self.request.endpoint
        guard endpoint.scheme == "http" || endpoint.scheme == "https" else {
            throw TransportError(
                .unsupported, "Invalid URL for an HTTP request: \(endpoint.origin). Use a URL that starts with http:// or https://.")
        }
        guard self.request.method != "CONNECT" else {
            throw TransportError(
                .unsupported, "The method CONNECT is not supported. To connect through a proxy, set the proxy of the transport.")
        }
        var head: [UInt8] = []
        try HTTPEncoder.append(self.request, keepsAlive: self.pool != nil, to: &head)
        let proxy = try self.connector.proxy(for: endpoint)
        let key = ConnectionKey(endpoint, proxy: proxy)
        if mayReuse, let idle = self.pool?.pool?.lend(key, isRepeatable: self.request.isRepeatable) { return try self.use(idle, head) }
        let options = try self.connector.options(for: endpoint, through: proxy, timeout: self.request.connectTimeout)
        let connection = HTTPClientConnection(key, loop: self.loop, for: self)
        self.enqueue(head, connection.stream)
        if self.begin(connection, isReused: false) { connection.connect(options) }
    }

    /// Sends the request on a connection that was idle.
    private func use(_ idle: HTTPClientConnection, _ head: [UInt8]) throws(TransportError) {
        guard self.begin(idle, isReused: true) else { return idle.close() }
        if let isTaken = self.takeNow(idle, head) { return self.use(idle, isTaken: isTaken) }
        guard self.loop.execute({ self.use(idle, isTaken: self.take(idle, head)) }) else { throw self.loop.unavailable }
    }

    private func use(_ idle: HTTPClientConnection, isTaken: Bool) {
        if isTaken { return self.send(idle.stream) }
        idle.close()
        let isRunning = self.state.withLock { state in
            guard case .running = state.phase else { return false }
            state.phase = .running(nil)
            state.isReused = false
            return true
        }
        if isRunning { self.connect(mayReuse: true) }
    }

    /// Takes a connection that was idle, unless the loop has to do so later: whatever the connection has received until then follows the last
    /// response.
    private func takeNow(_ idle: HTTPClientConnection, _ head: [UInt8]) -> Bool? {
        guard self.loop.isOnLoop else { return self.loop.whileAsleep { self.take(idle, head) } }
        // Within an event, TLS may have read more than it has delivered.
        return self.request.endpoint.isSecure ? nil : self.take(idle, head)
    }

    private func take(_ idle: HTTPClientConnection, _ head: [UInt8]) -> Bool {
        self.decoder.bind()
        guard idle.lend(to: self) else { return false }
        // At the same time: if a response arrived before the request is sent, the connection must not count as idle.
        self.enqueue(head, idle.stream)
        return true
    }

    private func enqueue(_ head: [UInt8], _ stream: SocketStream) {
        stream.enqueue { output in
            output.append(contentsOf: head)
            output.append(contentsOf: self.request.body)
        }
    }

    /// - Returns: `false` if the exchange was cancelled.
    private func begin(_ connection: HTTPClientConnection, isReused: Bool) -> Bool {
        self.state.withLock { state in
            guard case .running = state.phase else { return false }
            state.phase = .running(connection)
            state.isReused = isReused
            return true
        }
    }

    func pauseReading() {
        self.state.withLock { state in
            state.isPaused = true
            state.connection?.setDeadline(nil)
            state.connection?.stream.pauseReading()
        }
    }

    func resumeReading() {
        self.state.withLock { state in
            guard state.isPaused else { return }
            state.isPaused = false
            if state.isOpen { self.restartIdleTimeout(&state) }
            // Under the lock: afterwards the connection may belong to another exchange.
            state.connection?.stream.resumeReading()
        }
    }

    func cancel() { _ = self.close() }

    private func end(_ failure: TransportError?) { self.close()?.ended(self.id, failure) }

    /// Closes the connection.
    ///
    /// - Returns: The events, if the exchange was in progress.
    private func close() -> (any HTTPExchangeEvents)? {
        let (connection, events) = self.takeAll()
        connection?.close()
        return events
    }

    /// The response has ended.
    ///
    /// - Parameter isLast: Whether nothing follows the response.
    private func complete(isLast: Bool) {
        let mayKeep = isLast && self.decoder.value.mayReuseConnection
        let pool = mayKeep ? self.pool : nil
        let (connection, events) = self.takeAll()
        if let pool { connection?.giveBack(to: pool) } else { connection?.close() }
        // Afterwards: the owner may send its next request now.
        events?.ended(self.id, nil)
    }

    /// Ends the exchange, and returns the connection if there is one.
    private func takeAll() -> (HTTPClientConnection?, (any HTTPExchangeEvents)?) {
        self.state.withLock { state in
            defer { state.phase = .ended }
            guard case .running(let connection) = state.phase else { return (nil, state.events.take()) }
            return (connection, state.events.take())
        }
    }

    // MARK: Events of the connection, on the loop's thread

    func opened(_ stream: SocketStream) {
        self.decoder.bind()
        self.send(stream)
    }

    private func send(_ stream: SocketStream) {
        self.state.withLock { state in
            // The loop may have ended the exchange already, or connected anew.
            guard state.connection?.stream === stream else { return }
            state.isOpen = true
            if state.isPaused { stream.pauseReading() }
            // A small request is sent immediately. If that counted as progress, a silent server would have twice the idle timeout.
            let unsent = stream.bufferedBytes
            state.unsent = unsent > SocketStream.highWater ? unsent : 0
            self.restartIdleTimeout(&state)
        }
        stream.flush()
    }

    func received(_ bytes: UnsafeRawBufferPointer) {
        // A task continues when everything has been delivered that it may wait for.
        DelayedWakeUps.delaying { self.deliver(bytes) }
    }

    private func deliver(_ bytes: UnsafeRawBufferPointer) {
        var head: HTTPResponseHead?
        var body = ReceivedBody(limit: bytes.count, self.loop)
        let result = self.decode(bytes, &head, &body)
        let events = self.state.withLock { state -> (any HTTPExchangeEvents)? in
            if head != nil { state.hasHead = true }
            self.restartIdleTimeout(&state)
            return state.events
        }
        guard let events else { return }
        if let head { events.received(head, of: self.id) }
        if !body.isEmpty {
            // The owner may have cancelled the exchange when it received the head.
            guard head == nil || self.state.withLock({ $0.events != nil }) else { return }
            body.deliver(to: events, of: self.id)
        }
        switch result {
        case .success(.complete(let isLast)): self.complete(isLast: isLast)
        case .success(.incomplete): break
        case .failure(let error): self.end(error)
        }
    }

    private func decode(
        _ bytes: UnsafeRawBufferPointer, _ head: inout HTTPResponseHead?, _ body: inout ReceivedBody
    ) -> Result<HTTPResponseDecoder.Progress, TransportError> {
        do throws(TransportError) {
            return .success(try self.decoder.value.decode(bytes, &head) { body.append($0) })
        } catch {
            return .failure(self.located(error))
        }
    }

    func drained() {
        self.state.withLock { state in
            state.unsent = 0
            self.restartIdleTimeout(&state)
        }
    }

    func ended(_ error: TransportError?) {
        if self.prepareRetry(error) { return self.connect(mayReuse: false) }
        if let error {
            let wasOpen = self.state.withLock { $0.isOpen }
            return self.end(wasOpen ? self.located(error) : error)
        }
        do throws(TransportError) {
            try self.decoder.value.endOfStream()
            self.end(nil)
        } catch {
            self.end(self.located(error))
        }
    }

    /// Returns whether to send the request again: the server has probably closed the idle connection before the request arrived.
    private func prepareRetry(_ error: TransportError?) -> Bool {
        guard error == nil || error?.code == .closed || error?.code == .reset, self.request.isRepeatable else { return false }
        // Without a reused connection the decoder may not belong to the loop's thread yet.
        guard self.state.withLock({ $0.isReused }), !self.decoder.value.hasStarted else { return false }
        let closed = self.state.withLock { state -> HTTPClientConnection? in
            guard case .running(let connection?) = state.phase else { return nil }
            state.phase = .running(nil)
            (state.isOpen, state.isReused) = (false, false)
            return connection
        }
        closed?.close()
        return closed != nil
    }

    // MARK: Time

    /// The idle timeout does not apply while reading is paused: then the server waits for this side.
    private func restartIdleTimeout(_ state: inout State) {
        state.idleLimit = PatientLimit(self.idleTimeout, now: self.loop.now)
        self.setDeadline(state)
    }

    private func setDeadline(_ state: State) {
        guard state.events != nil, !state.isPaused else { return }
        state.connection?.setDeadline(state.idleLimit.deadline)
    }

    /// The idle timeout has expired.
    func deadlinePassed(now: Instant) {
        let hasTimedOut = self.state.withLock { state -> Bool in
            // A server that is still receiving the request makes progress too.
            let unsent = state.connection?.stream.bufferedBytes ?? 0
            if unsent < state.unsent {
                state.unsent = unsent
                self.restartIdleTimeout(&state)
                return false
            }
            if state.idleLimit.hasPassed(now: now) { return true }
            self.setDeadline(state)
            return false
        }
        guard hasTimedOut else { return }
        let (hasHead, timeout) = (self.state.withLock { $0.hasHead }, self.request.idleTimeout)
        let cause = hasHead ? "the response stalled for \(timeout)" : "no response within \(timeout)"
        self.end(TransportError(.timedOut, "\(self.request.endpoint) timed out: \(cause). Check the server, or increase idleTimeout."))
    }

    // MARK: Errors

    /// Advice for a server that hasn't answered as one of HTTP. A server that has, expects no TLS.
    private var schemeHint: String {
        if self.request.endpoint.isSecure || self.state.withLock({ $0.hasHead || $0.isReused }) { return "" }
        return " If the server expects TLS on this port, use https://."
    }

    /// Adds the origin of the response, and advice.
    private func located(_ error: TransportError) -> TransportError {
        let advice: String =
            switch error.code {
            case .closed, .reset: " Check the server's log and any proxies; the server may have processed the request.\(self.schemeHint)"
            case .protocolViolation: " Check that the URL is that of an HTTP/1.1 server.\(self.schemeHint)"
            default: ""
            }
        return TransportError(error.code, "\(self.request.endpoint.origin): \(error.message)\(advice)")
    }
}
