import CommandLineSupport
import PusherWire
import RealtimeCore
import RealtimeJSON
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
        let url = request.endpoint.origin + self.redact(request.endpoint.target, request)
        self.report(.request(request.method, url, body: String(decoding: request.body, as: UTF8.self)))
        let response = try await self.http.send(request)
        // Before it is shortened, because a part of a token can't be recognized.
        let body = Excerpt.of(self.redact(String(decoding: response.body, as: UTF8.self), request), limit: Self.bodyLimit)
        let isError = response.head.status >= 300
        // An error of Pusher's HTTP API may quote the signature that the server expected.
        self.report(.response(response.head.status, response.head.reason, body: isError ? ServerError.redacted(body) : body))
        return HTTPStreamedResponse(response)
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
        return JSONValue.object(members).description
    }

    /// The number of bytes of a response that are reported.
    private static let bodyLimit = 4096
}
