import RealtimeSystem

/// A transport that reports the requests with which the WebSockets of another transport begin, and the responses to them.
///
/// It is a decorator, so that connections that aren't traced do no work for it. ``TracingTransport`` reports what follows.
package struct TracingUpgradeTransport: WebSocketTransport {
    private let transport: any WebSocketTransport
    private let trace: TracingHTTPTransport.Trace

    package init(_ transport: any WebSocketTransport, trace: @escaping TracingHTTPTransport.Trace) {
        self.transport = transport
        self.trace = trace
    }

    package func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        let report = self.trace(HTTPRequest("GET", request.endpoint, headers: request.headers))
        let connection = self.transport.makeConnection(request, id: id, events: TracedUpgradeEvents(events, report))
        return TracedUpgrade(connection, report)
    }
}

private final class TracedUpgrade: ConnectionDecorator {
    let connection: any MessageConnection
    private let report: @Sendable (RequestAction) -> Void

    init(_ connection: any MessageConnection, _ report: @escaping @Sendable (RequestAction) -> Void) {
        self.connection = connection
        self.report = report
    }

    func open() {
        self.report(.sent)
        self.connection.open()
    }
}

private final class TracedUpgradeEvents: PartialMessageEvents {
    private let events: any MessageEvents
    private let report: @Sendable (RequestAction) -> Void
    private let isOpen = Lock(false)

    init(_ events: any MessageEvents, _ report: @escaping @Sendable (RequestAction) -> Void) {
        self.events = events
        self.report = report
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.isOpen.withLock { $0 = true }
        self.reportResponse(HTTPResponse(head))
        self.events.opened(id, head: head)
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.events.received(id, batch) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        self.events.received(id, batch, from: start)
    }

    func receivedPart(_ id: ConnectionID, byteCount: Int) { self.events.reportPart(id, byteCount: byteCount) }

    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        if !self.isOpen.withLock({ $0 }) {
            switch reason {
            case .transport(let error):
                if let response = error.response { self.reportResponse(response) } else { self.report(.ended(error)) }
            case .requested, .openTimeout, .heartbeatTimeout, .peer: self.report(.cancelled)
            }
        }
        self.events.closed(id, reason)
    }

    private func reportResponse(_ response: HTTPResponse) {
        self.report(.receivedHead(response.head))
        if !response.body.isEmpty { self.report(.receivedBody(response.body)) }
        self.report(.ended(nil))
    }
}
