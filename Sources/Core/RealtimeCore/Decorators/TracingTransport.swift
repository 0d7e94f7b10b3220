import RealtimeSystem

/// An action of a connection, for a trace.
package enum ConnectionAction {
    case opened
    /// A message was sent.
    case sent(TransportMessage.Kind, ArraySlice<UInt8>)
    case received(TransportMessage.Kind, ArraySlice<UInt8>)
    case sentClose(CloseCode)
    case receivedClose(CloseCode)
    /// This side ended the connection without a close frame.
    case abandoned
    /// The connection was lost.
    case ended
}

/// Receives what connections do. Called on any thread and without a lock; it should return quickly.
///
/// The messages in each direction are reported in their order. If several threads send, a response can be reported before the message that
/// it belongs to.
package typealias ConnectionTrace = @Sendable (ConnectionID, ConnectionAction) -> Void

/// Returns the text of a message without its secrets, as a trace shows it.
package typealias DescribeMessage = @Sendable (TransportMessage.Kind, _ payload: ArraySlice<UInt8>) -> String

/// A transport that reports what the connections of another transport do.
///
/// It is a decorator, so that connections that aren't traced do no work for it.
package struct TracingTransport: WebSocketTransport {
    private let transport: any WebSocketTransport
    private let trace: ConnectionTrace

    package init(_ transport: any WebSocketTransport, trace: @escaping ConnectionTrace) {
        self.transport = transport
        self.trace = trace
    }

    package func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        let connection = self.transport.makeConnection(request, id: id, events: TracedEvents(events, self.trace))
        return TracedConnection(connection, id, self.trace)
    }
}

/// A connection that changes or reports what another connection does. It passes on each call that it doesn't implement.
package protocol ConnectionDecorator: MessageConnection {
    var connection: any MessageConnection { get }
}

extension ConnectionDecorator {
    package func open() { self.connection.open() }
    package func enqueue(_ message: TransportMessage) { self.connection.enqueue(message) }
    package func flush() { self.connection.flush() }
    package func pauseReading() { self.connection.pauseReading() }
    package func resumeReading() { self.connection.resumeReading() }
    package func close(_ code: CloseCode, reason: String) { self.connection.close(code, reason: reason) }
    package func abandon() { self.connection.abandon() }
}

extension MessageConnection {
    /// The connection without its decorators.
    package var undecorated: any MessageConnection {
        var connection: any MessageConnection = self
        while let decorator = connection as? any ConnectionDecorator { connection = decorator.connection }
        return connection
    }
}

/// Describes a message by its kind and size, for protocols whose messages may contain secrets anywhere.
@Sendable package func messageSize(_ kind: TransportMessage.Kind, _ payload: ArraySlice<UInt8>) -> String {
    "\(kind) of \(payload.count) bytes"
}

/// Logs what a driver's connections do, at the level ``LogSink/Level/trace``, whatever transport creates them.
struct ConnectionLog: Sendable {
    let log: LogSink
    /// The part of the library that the log messages name.
    let subsystem: String

    /// Creates a connection that is logged.
    ///
    /// - Parameters:
    ///   - id: The connection's ID.
    ///   - events: The object that receives its events.
    ///   - describe: Returns the text of a message without its secrets. Called without a lock.
    ///   - connect: Creates the connection, whose events go to the object that the closure receives.
    func connect(
        _ id: ConnectionID, _ events: any MessageEvents, _ describe: @escaping DescribeMessage,
        _ connect: (any MessageEvents) -> any MessageConnection
    ) -> any MessageConnection {
        let trace: ConnectionTrace = { [log, subsystem] id, action in
            let text =
                switch action {
                case .opened: "open"
                case .sent(let kind, let payload): "sent \(describe(kind, payload))"
                case .received(let kind, let payload): "received \(describe(kind, payload))"
                case .sentClose(let code): "sent close \(code)"
                case .receivedClose(let code): "received close \(code)"
                case .abandoned: "abandoned"
                case .ended: "ended"
                }
            log.log(.trace, subsystem, "\(id) \(text)")
        }
        return TracedConnection(connect(TracedEvents(events, trace)), id, trace)
    }
}

/// A listener that reports what the WebSockets do that its handler accepts.
package struct TracingListener: Listener {
    private let listener: any Listener
    private let trace: ConnectionTrace

    package init(_ listener: any Listener, trace: @escaping ConnectionTrace) {
        self.listener = listener
        self.trace = trace
    }

    package func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        try await self.listener.start(TracingHandler(handler, self.trace))
    }

    package func stop() async { await self.listener.stop() }
}

private final class TracingHandler: ListenerHandler {
    private let handler: any ListenerHandler
    private let trace: ConnectionTrace

    init(_ handler: any ListenerHandler, _ trace: @escaping ConnectionTrace) {
        self.handler = handler
        self.trace = trace
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.handler.received(request, body: body, responder: responder)
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.handler.upgrade(request).replacingAcceptor { [trace] in TracingAcceptor(acceptor: $0, trace: trace) }
    }

    func bodyLimit(for request: HTTPRequestHead) -> Int? { self.handler.bodyLimit(for: request) }
}

private struct TracingAcceptor: UpgradeAcceptor {
    let acceptor: any UpgradeAcceptor
    let trace: ConnectionTrace

    var messageLimit: Int? { self.acceptor.messageLimit }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        TracedEvents(self.acceptor.connected(TracedConnection(connection, id, self.trace), id: id), self.trace)
    }

    func abandoned() { self.acceptor.abandoned() }
}

/// Reports what is sent on a connection.
package final class TracedConnection: ConnectionDecorator {
    package let connection: any MessageConnection
    private let id: ConnectionID
    private let trace: ConnectionTrace
    /// The messages that were enqueued since the last flush. Messages are enqueued under a lock, and reported without one.
    private let unreported = Lock<[TransportMessage]>([])

    package init(_ connection: any MessageConnection, _ id: ConnectionID, _ trace: @escaping ConnectionTrace) {
        self.connection = connection
        self.id = id
        self.trace = trace
    }

    package func enqueue(_ message: TransportMessage) {
        self.unreported.withLock { $0.append(message) }
        self.connection.enqueue(message)
    }

    package func flush() {
        self.reportMessages()
        self.connection.flush()
    }

    package func close(_ code: CloseCode, reason: String) {
        self.reportMessages()
        self.trace(self.id, .sentClose(code))
        self.connection.close(code, reason: reason)
    }

    package func abandon() {
        self.trace(self.id, .abandoned)
        self.connection.abandon()
    }

    private func reportMessages() {
        let messages = self.unreported.withLock { messages in
            defer { messages = [] }
            return messages
        }
        for message in messages { self.trace(self.id, .sent(message.kind, message.bytes[...])) }
    }
}

/// Reports what is received on a connection.
package final class TracedEvents: HTTPMessageEvents, PartialMessageEvents {
    private let events: any MessageEvents
    private let trace: ConnectionTrace

    package init(_ events: any MessageEvents, _ trace: @escaping ConnectionTrace) {
        self.events = events
        self.trace = trace
    }

    package func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.trace(id, .opened)
        self.events.opened(id, head: head)
    }

    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for entry in batch.entries { self.trace(id, .received(entry.kind, batch.bytes[entry.range])) }
        self.events.received(id, batch)
    }

    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        // All of them when the first one is taken, because a message is reported before its answers.
        if start == 0 { for entry in batch.entries { self.trace(id, .received(entry.kind, batch.bytes[entry.range])) } }
        return self.events.received(id, batch, from: start)
    }

    package func receivedPart(_ id: ConnectionID, byteCount: Int) { self.events.reportPart(id, byteCount: byteCount) }

    package func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }

    package func answered(_ id: ConnectionID, _ count: Int) { (self.events as? any HTTPMessageEvents)?.answered(id, count) }

    package func unsent(_ id: ConnectionID, _ messages: [TransportMessage]) {
        (self.events as? any HTTPMessageEvents)?.unsent(id, messages)
    }

    package func closed(_ id: ConnectionID, _ reason: CloseReason) {
        // Omits the text of the peer, which may repeat a secret. The session logs it without.
        if case .peer(let code, _) = reason { self.trace(id, .receivedClose(code)) } else { self.trace(id, .ended) }
        self.events.closed(id, reason)
    }
}
