import RealtimeSystem

/// An action of an HTTP request, for a trace.
package enum RequestAction: Sendable {
    case sent
    case receivedHead(HTTPResponseHead)
    case receivedBody([UInt8])
    /// The response is complete, or there is an error.
    case ended(TransportError?)
    /// The client gave up the request.
    case cancelled
}

/// A transport that reports the requests of another transport, and their responses as they arrive.
///
/// It is a decorator, so that requests that aren't traced do no work for it.
package struct TracingHTTPTransport: HTTPExchangeTransport {
    /// Begins the trace of a request. The closure that it returns receives the actions of that request, up to its end, on any thread and
    /// without a lock; it should return quickly. They are in order, but a part of the response that is being reported when the request is
    /// given up may follow that.
    package typealias Trace = @Sendable (HTTPRequest) -> @Sendable (RequestAction) -> Void

    private let transport: any HTTPTransport
    private let trace: Trace

    package init(_ transport: any HTTPTransport, trace: @escaping Trace) {
        self.transport = transport
        self.trace = trace
    }

    package func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        let trace = RequestTrace(self.trace(request))
        return TracedExchange(self.transport.exchange(request, id: id, events: TracedExchangeEvents(events, trace)), trace)
    }
}

/// Reports the actions of a request up to its end.
private final class RequestTrace: Sendable {
    private let report: @Sendable (RequestAction) -> Void
    private let hasEnded = Lock(false)

    init(_ report: @escaping @Sendable (RequestAction) -> Void) {
        self.report = report
    }

    func callAsFunction(_ action: RequestAction) {
        let isLate = self.hasEnded.withLock { hasEnded in
            defer { if action.isEnd { hasEnded = true } }
            return hasEnded
        }
        if !isLate { self.report(action) }
    }
}

extension RequestAction {
    fileprivate var isEnd: Bool {
        switch self {
        case .ended, .cancelled: true
        case .sent, .receivedHead, .receivedBody: false
        }
    }
}

/// Reports the beginning of a request, and that it was given up.
private final class TracedExchange: TimedExchange {
    private let exchange: any HTTPExchange
    private let trace: RequestTrace

    var time: (any TimeSource)? { (self.exchange as? any TimedExchange)?.time }

    init(_ exchange: any HTTPExchange, _ trace: RequestTrace) {
        self.exchange = exchange
        self.trace = trace
    }

    func start() {
        self.trace(.sent)
        self.exchange.start()
    }

    func pauseReading() { self.exchange.pauseReading() }
    func resumeReading() { self.exchange.resumeReading() }

    func cancel() {
        self.exchange.cancel()
        self.trace(.cancelled)
    }
}

/// Reports the response to a request.
private final class TracedExchangeEvents: HTTPExchangeEvents {
    private let events: any HTTPExchangeEvents
    private let trace: RequestTrace

    init(_ events: any HTTPExchangeEvents, _ trace: RequestTrace) {
        self.events = events
        self.trace = trace
    }

    func received(_ head: HTTPResponseHead, of id: ExchangeID) {
        self.trace(.receivedHead(head))
        self.events.received(head, of: id)
    }

    func received(_ body: [UInt8], of id: ExchangeID) {
        self.trace(.receivedBody(body))
        self.events.received(body, of: id)
    }

    func ended(_ id: ExchangeID, _ error: TransportError?) {
        self.trace(.ended(error))
        self.events.ended(id, error)
    }
}

extension HTTPTransport {
    /// Returns a transport that logs the requests of a connection at the level ``LogSink/Level/trace``, without the queries of their URLs and
    /// their header fields; this one if the sink doesn't ask for that level.
    ///
    /// - Parameters:
    ///   - id: The ID of the connection, which begins each message.
    ///   - log: The destination.
    ///   - subsystem: The part of the library that the log messages name.
    package func logged(_ id: ConnectionID, to log: LogSink, _ subsystem: String) -> any HTTPTransport {
        guard log.minimumLevel <= .trace else { return self }
        return TracingHTTPTransport(self) { request in
            let name = "\(id) \(request.method) \(request.endpoint)"
            let received = Lock(0)
            return { action in
                let text: String
                switch action {
                case .sent: text = request.body.isEmpty ? "" : " with \(request.body.count) bytes"
                case .receivedHead(let head): text = ": status \(head.status)"
                case .receivedBody(let bytes): return received.withLock { $0 += bytes.count }
                case .ended(nil): text = ": received \(received.withLock { $0 }) bytes"
                case .ended(let error?): text = ": \(error.message)"
                case .cancelled: text = ": cancelled"
                }
                log.log(.trace, subsystem, name + text)
            }
        }
    }
}
