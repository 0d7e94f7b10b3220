import CommandLineSupport
import PusherWire
import RealtimeCore
import RealtimeJSON
import RealtimeSystem

// What `--verbose` adds to the transports of a server and of a publisher. A client traces its frames itself.

// MARK: Frames of a server

/// A listener that reports every frame of the WebSockets that its handler accepts, without signatures.
struct TracingListener: Listener {
    let listener: any Listener
    /// Called on the listener's threads and without a lock. It must not wait.
    let report: @Sendable (Line) -> Void

    func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        try await self.listener.start(TracingHandler(handler, self.report))
    }

    func stop() async { await self.listener.stop() }
}

private final class TracingHandler: ListenerHandler {
    private let handler: any ListenerHandler
    private let report: @Sendable (Line) -> Void

    init(_ handler: any ListenerHandler, _ report: @escaping @Sendable (Line) -> Void) {
        self.handler = handler
        self.report = report
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.handler.received(request, body: body, responder: responder)
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { self.handler.upgrade(request) }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        let connection = TracingConnection(connection, self.report)
        return TracingEvents(self.handler.accepted(connection, id: id, request: request), connection)
    }
}

/// Reports what the server sends on a connection.
private final class TracingConnection: WebSocketConnection {
    private struct State: Sendable {
        var socketID: String?
        /// The messages that were enqueued since the last flush. Messages are enqueued under a lock, and reported without one.
        var unreported: [WebSocketMessage] = []
    }

    private let connection: any WebSocketConnection
    private let report: @Sendable (Line) -> Void
    private let state = Lock(State())

    init(_ connection: any WebSocketConnection, _ report: @escaping @Sendable (Line) -> Void) {
        self.connection = connection
        self.report = report
    }

    func reportFrame(_ kind: WebSocketMessage.Kind, _ payload: ArraySlice<UInt8>, from sender: FrameSender) {
        self.report(.frame(FrameTrace().text(kind, payload), from: sender, socketID: self.state.withLock { $0.socketID }))
    }

    func open() { self.connection.open() }

    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { $0.unreported.append(message) }
        self.connection.enqueue(message)
    }

    func flush() {
        self.reportMessages()
        self.connection.flush()
    }

    func pauseReading() { self.connection.pauseReading() }
    func resumeReading() { self.connection.resumeReading() }

    func close(_ code: CloseCode, reason: String) {
        self.reportMessages()
        self.connection.close(code, reason: reason)
    }

    func abandon() { self.connection.abandon() }

    private func reportMessages() {
        let messages = self.state.withLock { state in
            defer { state.unreported = [] }
            // The first frame assigns the socket ID.
            if state.socketID == nil { state.socketID = state.unreported.lazy.compactMap(Self.socketID).first }
            return state.unreported
        }
        for message in messages { self.reportFrame(message.kind, message.bytes[...], from: .server) }
    }

    private static func socketID(in message: WebSocketMessage) -> String? {
        guard message.kind == .text, let frame = try? JSONValue(parsing: message.bytes),
            frame["event"]?.string == EventName.connectionEstablished, let data = frame["data"]?.string
        else { return nil }
        return (try? JSONValue(parsing: data))?["socket_id"]?.string
    }
}

/// Reports what the server receives on a connection.
private final class TracingEvents: WebSocketEvents {
    private let events: any WebSocketEvents
    private let connection: TracingConnection

    init(_ events: any WebSocketEvents, _ connection: TracingConnection) {
        self.events = events
        self.connection = connection
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events.opened(id, head: head) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for entry in batch.entries { self.connection.reportFrame(entry.kind, batch.bytes[entry.range], from: .client) }
        self.events.received(id, batch)
    }

    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.events.closed(id, reason) }
}

// MARK: Requests of a publisher

/// A transport that reports signed requests and their responses, without the signatures.
struct TracingHTTPTransport: HTTPTransport {
    let http: any HTTPTransport
    /// Called in the task that sends the request.
    let report: @Sendable (Line) -> Void

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let target = request.endpoint.target
        let fields = target.utf8.split(separator: UInt8(ascii: "&")).map { String(decoding: $0, as: UTF8.self) }
        let signature = fields.first { $0.hasPrefix("auth_signature=") }.map { String($0.dropFirst("auth_signature=".count)) }
        func visible(_ text: String) -> String {
            signature.map { text.replacingText($0, with: "\(Redacted.secret)") } ?? text
        }
        let url = request.endpoint.origin + visible(target)
        self.report(.request(request.method, url, body: String(decoding: request.body, as: UTF8.self)))
        let response = try await self.http.send(request)
        let body = visible(String(decoding: response.body.prefix(Self.bodyLimit), as: UTF8.self))
        let isError = response.head.status >= 300
        // An error may quote the signature that the server expected.
        self.report(.response(response.head.status, response.head.reason, body: isError ? ServerError.redacted(body) : body))
        return HTTPStreamedResponse(response.head, body: WholeBody(response.body))
    }

    /// The number of bytes of a response that are reported.
    private static let bodyLimit = 4096
}

/// A body that has arrived.
private final class WholeBody: HTTPBody {
    private let bytes: Lock<[UInt8]>

    init(_ bytes: [UInt8]) {
        self.bytes = Lock(bytes)
    }

    func next() async throws(TransportError) -> [UInt8]? {
        self.bytes.withLock { bytes in
            defer { bytes = [] }
            return bytes.isEmpty ? nil : bytes
        }
    }
}
