import CommandLineSupport
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem

// What `--verbose` adds to the transports of servers and publishers, and to the HTTP requests of a client.

// MARK: Frames of a Pusher server

/// Reports every frame of a Pusher server, without signatures, and with the socket ID of its connection.
final class PusherFrameTrace: Sendable {
    private let socketIDs = Lock<[ConnectionID: String]>([:])
    /// Called on the listener's threads and without a lock. It must not wait.
    private let report: @Sendable (Line) -> Void

    init(_ report: @escaping @Sendable (Line) -> Void) {
        self.report = report
    }

    func trace(_ id: ConnectionID, _ action: ConnectionAction) {
        switch action {
        case .sent(let kind, let payload):
            // The first frame assigns the socket ID.
            if self.socketID(id) == nil, let socketID = Self.socketID(in: kind, payload) {
                self.socketIDs.withLock { $0[id] = socketID }
            }
            self.report(.frame(FrameTrace().text(kind, payload), from: .server, socketID: self.socketID(id)))
        case .received(let kind, let payload):
            self.report(.frame(FrameTrace().text(kind, payload), from: .client, socketID: self.socketID(id)))
        case .abandoned, .receivedClose, .ended: self.socketIDs.withLock { $0[id] = nil }
        case .opened, .sentClose: break
        }
    }

    private func socketID(_ id: ConnectionID) -> String? { self.socketIDs.withLock { $0[id] } }

    private static func socketID(in kind: WebSocketMessage.Kind, _ payload: ArraySlice<UInt8>) -> String? {
        guard kind == .text, let frame = try? JSONValue(parsing: Array(payload)),
            frame["event"]?.string == EventName.connectionEstablished, let data = frame["data"]?.string
        else { return nil }
        return (try? JSONValue(parsing: data))?["socket_id"]?.string
    }
}

// MARK: HTTP requests

/// A transport that reports requests and their responses.
struct TracingHTTPTransport: HTTPTransport {
    let http: any HTTPTransport
    /// Removes the secrets from a text that belongs to a request: its target, or the body of its response.
    let redact: @Sendable (_ text: String, _ request: HTTPRequest) -> String
    /// Called in the task that sends the request.
    let report: @Sendable (Line) -> Void

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        // The server may repeat the header fields of the request.
        let filter = SecretFilter(request.headers.secrets, replacement: "\(Redacted.secret)")
        let redact = { @Sendable [redact] in filter.redacted(redact($0, request)) }
        let url = request.endpoint.origin + redact(request.endpoint.target)
        self.report(.request(request.method, url, body: String(decoding: request.body, as: UTF8.self)))
        let response = try await self.http.open(request)
        // The caller receives the body as it arrives, as without the trace.
        let body = TracedBody(response, report: self.report, redact: redact)
        return HTTPStreamedResponse(response.head, body: body)
    }

    /// Removes the signature of a request to Pusher's HTTP API.
    static func redactSignature(_ text: String, _ request: HTTPRequest) -> String {
        let name = "auth_signature="
        let fields = request.endpoint.target.utf8.split(separator: UInt8(ascii: "&")).map { String(decoding: $0, as: UTF8.self) }
        guard let field = fields.first(where: { $0.hasPrefix(name) }) else { return text }
        return text.replacingText(String(field.dropFirst(name.count)), with: "\(Redacted.secret)")
    }

    /// Removes the tokens from the response to a negotiation.
    static func redactTokens(_ text: String, _ request: HTTPRequest) -> String {
        guard case .object(var members)? = try? JSONValue(parsing: text) else { return text }
        for name in ["connectionToken", "accessToken"] where members[name] != nil { members[name] = .string("\(Redacted.secret)") }
        // The query of a redirect's URL may contain a token as well.
        if let url = members["url"]?.string { members["url"] = .string(Redacted.query(of: url)) }
        return JSONValue.object(members).description
    }
}

/// Reports a response while its body is read: the parts of a stream as they arrive, and any other body at its end.
///
/// A body that may contain a token is reported as a whole, because a part of a token can't be recognized: JSON, and errors.
private final class TracedBody: HTTPBody {
    private struct State: Sendable {
        /// Whether the parts are reported as they arrive; `nil` until the first byte that isn't white space tells.
        var isStream: Bool?
        /// The bytes that have arrived and haven't been reported.
        var bytes: [UInt8] = []
        /// The number of bytes that have arrived.
        var count = 0
        var hasReportedHead = false
        var hasEnded = false
    }

    /// The maximum size of a body that is reported as a whole. Clients accept no larger JSON.
    private static let sizeLimit = 1 << 20

    private let head: HTTPResponseHead
    private let body: any HTTPBody
    private let report: @Sendable (Line) -> Void
    private let redact: @Sendable (String) -> String
    private let state = Lock(State())

    init(
        _ response: HTTPStreamedResponse, report: @escaping @Sendable (Line) -> Void, redact: @escaping @Sendable (String) -> String
    ) {
        self.head = response.head
        self.body = response.body
        self.report = report
        self.redact = redact
        // The first event may take long.
        if self.mayBeStream, response.head.headers["Content-Type"]?.hasPrefix("text/event-stream") == true { self.reportPart("") }
    }

    /// The rest of the body isn't read.
    deinit { self.end(isComplete: false) }

    private var mayBeStream: Bool { (200..<300).contains(self.head.status) && self.head.headers["Content-Length"] == nil }

    func next() async throws(TransportError) -> [UInt8]? {
        guard let chunk = try await self.body.next() else {
            self.end(isComplete: true)
            return nil
        }
        let part = self.state.withLock { state -> [UInt8]? in
            state.count += chunk.count
            if state.count <= Self.sizeLimit { state.bytes += chunk }
            if state.isStream == nil { state.isStream = self.mayBeStream ? Self.isStream(state.bytes) : false }
            guard state.isStream == true else { return nil }
            defer { state.bytes = [] }
            return state.count <= Self.sizeLimit ? state.bytes : chunk
        }
        if let part { self.reportPart(self.text(of: part)) }
        return chunk
    }

    /// Returns whether a body isn't JSON; `nil` if all bytes are white space.
    private static func isStream(_ bytes: [UInt8]) -> Bool? {
        // A byte order mark may precede JSON.
        let space: [UInt8] = [0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF]
        guard let first = bytes.first(where: { !space.contains($0) }) else { return nil }
        return first != UInt8(ascii: "{") && first != UInt8(ascii: "[")
    }

    /// Reports what hasn't been reported.
    private func end(isComplete: Bool) {
        let state = self.state.withLock { state in
            defer { state.hasEnded = true }
            return state
        }
        guard !state.hasEnded, state.isStream != true else { return }
        if !isComplete {
            // A part of a token can't be recognized.
            self.reportPart("\(state.count) bytes, incomplete")
        } else {
            self.reportPart(state.count <= Self.sizeLimit ? self.text(of: state.bytes) : "\(state.count) bytes")
        }
    }

    /// Reports the head with the first part of the body, and later parts alone.
    private func reportPart(_ text: String) {
        let hasReportedHead = self.state.withLock { state in
            defer { state.hasReportedHead = true }
            return state.hasReportedHead
        }
        self.report(hasReportedHead ? .responsePart(text) : .response(self.head.status, self.head.reason, body: text))
    }

    private func text(of bytes: [UInt8]) -> String {
        // Before it is shortened, because a part of a token can't be recognized.
        let text = TracedFrame.excerpt(of: self.redact(String(decoding: bytes, as: UTF8.self)), byteCount: bytes.count)
        // An error of Pusher's HTTP API may quote the signature that the server expected.
        return self.head.status >= 300 ? ServerError.redacted(text) : text
    }
}
