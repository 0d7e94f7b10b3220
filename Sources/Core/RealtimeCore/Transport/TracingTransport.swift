import RealtimeSystem

/// A transport that logs what another transport sends and receives, at the level ``LogSink/Level/trace``.
///
/// It is a decorator, so that connections that aren't traced do no work for it. The messages in each direction are logged in their order.
/// If several threads send, a response can be logged before the message that it belongs to.
package struct TracingTransport: WebSocketTransport {
    /// Returns the text of a message without its secrets.
    package typealias Describe = @Sendable (WebSocketMessage.Kind, _ payload: ArraySlice<UInt8>) -> String

    private let transport: any WebSocketTransport
    private let log: @Sendable (String) -> Void
    private let describe: Describe

    /// Creates a transport that logs to a sink.
    ///
    /// - Parameters:
    ///   - transport: The transport that creates the connections.
    ///   - log: The destination of the messages.
    ///   - subsystem: The part of the library that the log messages name.
    ///   - describe: Returns the text of a message without its secrets. Called without a lock.
    package init(_ transport: any WebSocketTransport, log: LogSink, subsystem: String, describe: @escaping Describe) {
        self.transport = transport
        self.log = { log.log(.trace, subsystem, $0) }
        self.describe = describe
    }

    package func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        let received = TracedEvents(events, log: self.log, describe: self.describe)
        let connection = self.transport.makeConnection(request, id: id, events: received)
        return TracedConnection(connection, id, log: self.log, describe: self.describe)
    }
}

/// Logs what is sent on a connection.
private final class TracedConnection: WebSocketConnection {
    private let connection: any WebSocketConnection
    private let id: ConnectionID
    private let log: @Sendable (String) -> Void
    private let describe: TracingTransport.Describe
    /// The messages that were enqueued since the last flush. Messages are enqueued under a lock, and the sink is called without one.
    private let unlogged = Lock<[WebSocketMessage]>([])

    init(
        _ connection: any WebSocketConnection, _ id: ConnectionID, log: @escaping @Sendable (String) -> Void,
        describe: @escaping TracingTransport.Describe
    ) {
        self.connection = connection
        self.id = id
        self.log = log
        self.describe = describe
    }

    func open() { self.connection.open() }

    func enqueue(_ message: WebSocketMessage) {
        self.unlogged.withLock { $0.append(message) }
        self.connection.enqueue(message)
    }

    func flush() {
        self.logMessages()
        self.connection.flush()
    }

    func pauseReading() { self.connection.pauseReading() }
    func resumeReading() { self.connection.resumeReading() }

    func close(_ code: CloseCode, reason: String) {
        self.logMessages()
        self.log("\(self.id) sent close \(code)")
        self.connection.close(code, reason: reason)
    }

    func abandon() {
        self.log("\(self.id) abandoned")
        self.connection.abandon()
    }

    private func logMessages() {
        let messages = self.unlogged.withLock { messages in
            defer { messages = [] }
            return messages
        }
        for message in messages { self.log("\(self.id) sent \(self.describe(message.kind, message.bytes[...]))") }
    }
}

/// Logs what is received on a connection.
private final class TracedEvents: WebSocketEvents {
    private let events: any WebSocketEvents
    private let log: @Sendable (String) -> Void
    private let describe: TracingTransport.Describe

    init(_ events: any WebSocketEvents, log: @escaping @Sendable (String) -> Void, describe: @escaping TracingTransport.Describe) {
        self.events = events
        self.log = log
        self.describe = describe
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.log("\(id) open")
        self.events.opened(id, head: head)
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for entry in batch.entries { self.log("\(id) received \(self.describe(entry.kind, batch.bytes[entry.range]))") }
        self.events.received(id, batch)
    }

    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        // The reason may repeat a secret. The session logs it without.
        if case .peer(let code, _) = reason { self.log("\(id) received close \(code)") } else { self.log("\(id) ended") }
        self.events.closed(id, reason)
    }
}
