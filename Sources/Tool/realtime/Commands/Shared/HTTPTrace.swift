import CommandLineSupport
import PrimusClient
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeEncoding
import RealtimeSystem

/// The output of `--verbose` for an HTTP request and its response, as they are sent and arrive.
///
/// The parts of a stream are printed as they arrive, and any other body at its end. A body that may contain a token is printed as a whole,
/// because a part of a token can't be recognized: JSON, and errors.
final class HTTPTrace: Sendable {
    /// Removes the secrets from a text that belongs to a request: its target, or the body of its response.
    typealias Redact = @Sendable (_ text: String, _ request: HTTPRequest) -> String

    private struct State: Sendable {
        var head: HTTPResponseHead?
        /// Whether the parts are printed as they arrive; `nil` until the first byte that isn't white space tells.
        var isStream: Bool?
        /// The bytes that have arrived and haven't been printed.
        var bytes: [UInt8] = []
        /// The number of bytes that have arrived.
        var count = 0
        var hasPrintedHead = false
    }

    /// The maximum size of a body that is printed as a whole. Clients accept no larger JSON.
    private static let sizeLimit = 1 << 20

    private let request: HTTPRequest
    private let url: String
    private let redact: @Sendable (String) -> String
    private let report: @Sendable (Line) -> Void
    private let state = Lock(State())

    private init(_ request: HTTPRequest, _ redact: @escaping Redact, _ report: @escaping @Sendable (Line) -> Void) {
        // The server may repeat the header fields of the request.
        let filter = SecretFilter(request.headers.secrets, replacement: "\(Redacted.secret)")
        self.redact = { filter.redacted(redact($0, request)) }
        self.request = request
        self.url = request.endpoint.origin + self.redact(request.endpoint.target)
        self.report = report
    }

    /// Returns a transport whose requests are printed.
    ///
    /// - Parameters:
    ///   - http: The transport.
    ///   - redact: Removes the secrets from the texts of a request.
    ///   - report: Receives the lines, on any thread. It must not wait.
    static func transport(
        _ http: any HTTPTransport, redact: @escaping Redact, report: @escaping @Sendable (Line) -> Void
    ) -> any HTTPTransport {
        TracingHTTPTransport(http, trace: self.trace(redact, report))
    }

    /// The same for the requests with which WebSockets begin.
    static func transport(
        _ webSocket: any WebSocketTransport, redact: @escaping Redact, report: @escaping @Sendable (Line) -> Void
    ) -> any WebSocketTransport {
        TracingUpgradeTransport(webSocket, trace: self.trace(redact, report))
    }

    private static func trace(_ redact: @escaping Redact, _ report: @escaping @Sendable (Line) -> Void) -> TracingHTTPTransport.Trace {
        { request in
            let trace = HTTPTrace(request, redact, report)
            return { trace.received($0) }
        }
    }

    private func received(_ action: RequestAction) {
        switch action {
        case .sent: self.report(.request(self.request.method, self.url, body: String(decoding: self.request.body, as: UTF8.self)))
        case .receivedHead(let head):
            self.state.withLock { $0.head = head }
            // The first event may take long.
            if Self.mayBeStream(head), head.headers["Content-Type"]?.hasPrefix("text/event-stream") == true { self.printPart("", head) }
        case .receivedBody(let bytes): self.received(bytes)
        case .ended(nil): self.end { $0.count <= Self.sizeLimit ? self.text(of: $0.bytes, $1) : "\($0.count) bytes" }
        // A part of a token can't be recognized.
        case .ended(let error?):
            self.end { state, _ in "\(state.count) bytes, incomplete" }
            self.report(.log(.debug, "\(self.request.method) \(self.url) failed: \(self.redact(error.message))"))
        case .cancelled: self.end { state, _ in "\(state.count) bytes, incomplete" }
        }
    }

    private func received(_ chunk: [UInt8]) {
        let part = self.state.withLock { state -> (HTTPResponseHead, [UInt8])? in
            guard let head = state.head else { return nil }
            state.count += chunk.count
            if state.count <= Self.sizeLimit { state.bytes += chunk }
            if state.isStream == nil { state.isStream = Self.mayBeStream(head) ? Self.isStream(state.bytes) : false }
            guard state.isStream == true else { return nil }
            defer { state.bytes = [] }
            return (head, state.count <= Self.sizeLimit ? state.bytes : chunk)
        }
        if let (head, bytes) = part { self.printPart(self.text(of: bytes, head), head) }
    }

    private static func mayBeStream(_ head: HTTPResponseHead) -> Bool {
        (200..<300).contains(head.status) && head.headers["Content-Length"] == nil
    }

    /// Returns whether a body isn't JSON; `nil` if all bytes are white space.
    private static func isStream(_ bytes: [UInt8]) -> Bool? {
        // A byte order mark may precede JSON.
        let space: [UInt8] = [0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF]
        guard let first = bytes.first(where: { !space.contains($0) }) else { return nil }
        return first != UInt8(ascii: "{") && first != UInt8(ascii: "[")
    }

    /// Prints what hasn't been printed of a response.
    private func end(_ text: (State, HTTPResponseHead) -> String) {
        let state = self.state.withLock { $0 }
        if let head = state.head, state.isStream != true { self.printPart(text(state, head), head) }
    }

    /// Prints the head with the first part of the body, and later parts alone.
    private func printPart(_ text: String, _ head: HTTPResponseHead) {
        let hasPrintedHead = self.state.withLock { state in
            defer { state.hasPrintedHead = true }
            return state.hasPrintedHead
        }
        self.report(hasPrintedHead ? .responsePart(text) : .response(head.status, head.reason, body: text))
    }

    private func text(of bytes: [UInt8], _ head: HTTPResponseHead) -> String {
        // Before it is shortened, because a part of a token can't be recognized.
        let text = TracedFrame.excerpt(of: self.redact(String(decoding: bytes, as: UTF8.self)), byteCount: bytes.count)
        // An error of Pusher's HTTP API may quote the signature that the server expected.
        return head.status >= 300 ? ServerError.redacted(text) : text
    }
}

extension HTTPTrace {
    /// Removes the signature of a request to Pusher's HTTP API.
    static func redactSignature(_ text: String, _ request: HTTPRequest) -> String {
        let name = "auth_signature="
        let fields = request.endpoint.target.utf8.split(separator: UInt8(ascii: "&")).map { String(decoding: $0, as: UTF8.self) }
        guard let field = fields.first(where: { $0.hasPrefix(name) }) else { return text }
        return text.replacingText(String(field.dropFirst(name.count)), with: "\(Redacted.secret)")
    }

    /// Removes the tokens from the response to a negotiation, and the values in the query of a request's URL from all texts: the
    /// connection token, and what a redirect or the user has added.
    static func redactTokens(_ text: String, _ request: HTTPRequest) -> String {
        self.redactQuery(self.redactNegotiation(text), request, except: ["negotiateVersion", "useStatefulReconnect"])
    }

    /// Removes the ID of a session of Primus from all texts, and the values in the query of a request's URL that aren't parameters of engine.io.
    static func redactSession(_ text: String, _ request: HTTPRequest) -> String {
        let text = self.redactQuery(text, request, except: ["EIO", "transport", "b64"])
        return PrimusFrameText.redactSID(PrimusFrameText.redactSockJSSession(text))
    }

    /// Removes the values in the query of a request's URL: of any length from the URL, and long ones from all texts.
    ///
    /// - Parameter known: The names of the values that are printed.
    private static func redactQuery(_ text: String, _ request: HTTPRequest, except known: [String]) -> String {
        let parts = request.endpoint.target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return text }
        var secrets: [String] = []
        let fields = parts[1].split(separator: "&", omittingEmptySubsequences: false).map { field -> String in
            let pair = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard pair.count == 2, !pair[1].isEmpty, !known.contains(pair[0]) else { return String(field) }
            secrets.append(pair[1])
            // A server that repeats a value may decode it first.
            if let decoded = PercentEncoding.decode(pair[1]) { secrets.append(decoded) }
            return "\(pair[0])=\(Redacted.secret)"
        }
        if text == request.endpoint.target { return "\(parts[0])?\(fields.joined(separator: "&"))" }
        return SecretFilter(secrets, replacement: "\(Redacted.secret)").redacted(text)
    }

    private static func redactNegotiation(_ text: String) -> String {
        guard case .object(var members)? = try? JSONValue(parsing: text) else { return text }
        var secrets = ["connectionToken", "accessToken"]
        // In version 0 of the protocol, the ID is the token.
        if members["availableTransports"] != nil, (members["negotiateVersion"]?.double ?? 0) < 1 { secrets.append("connectionId") }
        for name in secrets where members[name] != nil { members[name] = .string("\(Redacted.secret)") }
        // The query of a redirect's URL may contain a token as well.
        if let url = members["url"]?.string { members["url"] = .string(Redacted.query(of: url)) }
        return JSONValue.object(members).description
    }
}
