import RealtimeCore

/// Whether the web page that sends a request may use a server. Other programs send no origin.
enum HubOrigin: Hashable, Sendable {
    /// The request names no origin, or the browser decides: without header fields that allow it, a page of another origin can't read the
    /// response.
    case unaffected
    /// Pages of this origin may read the response.
    case allowed(String)
    case refused(String)

    init(_ request: HTTPRequestHead, _ configuration: SignalRServerConfiguration, isOnLoopback: Bool) {
        guard let origin = request.headers["Origin"] else {
            self = .unaffected
            return
        }
        // A server with a shared listener doesn't know its address, and browsers state the one that they use.
        let isOnLoopback = isOnLoopback || request.headers["Host"].map(LoopbackName.matches(hostField:)) ?? false
        if configuration.allowedOrigins.contains(where: { $0 == "*" || $0.lowercased() == origin.lowercased() }) {
            self = .allowed(origin)
        } else if !isOnLoopback {
            self = .unaffected
        } else {
            self = configuration.allowsForeignOrigins || LoopbackName.host(of: origin) != nil ? .allowed(origin) : .refused(origin)
        }
    }

    var refused: String? {
        if case .refused(let origin) = self { origin } else { nil }
    }

    var allowed: String? {
        if case .allowed(let origin) = self { origin } else { nil }
    }

    /// The response to a request with which a browser asks whether a page may send another one; `nil` if it isn't one.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - refusal: The response for a page that is refused.
    ///
    /// Source: the Fetch Standard, "CORS-preflight request".
    func preflight(_ request: HTTPRequestHead, refusal: (_ origin: String) -> HTTPResponse) -> HTTPResponse? {
        guard request.method == "OPTIONS", request.headers["Origin"] != nil, request.headers["Access-Control-Request-Method"] != nil else {
            return nil
        }
        switch self {
        case .refused(let origin): return refusal(origin)
        // Without the fields, the browser doesn't send the other request.
        case .unaffected: return HTTPResponse(status: 204)
        case .allowed:
            var headers: HTTPHeaders = ["Access-Control-Allow-Methods": "GET, POST, DELETE", "Access-Control-Max-Age": "600"]
            let names = request.headers.values("Access-Control-Request-Headers")
            if !names.isEmpty { headers.add("Access-Control-Allow-Headers", names.joined(separator: ", ")) }
            return HTTPResponse(HTTPResponseHead(status: 204, headers: headers))
        }
    }
}

/// Adds the header fields that allow pages of another origin to read a response.
final class CrossOriginResponder: DroppableResponder, SharingResponder {
    private let responder: any HTTPResponder
    private let origin: String

    init(_ responder: any HTTPResponder, origin: String) {
        (self.responder, self.origin) = (responder, origin)
    }

    private func adding(_ head: HTTPResponseHead) -> HTTPResponseHead {
        var head = head
        head.headers["Access-Control-Allow-Origin"] = self.origin
        head.headers["Access-Control-Allow-Credentials"] = "true"
        head.headers.add("Vary", "Origin")
        return head
    }

    func respond(_ response: HTTPResponse) { self.responder.respond(HTTPResponse(self.adding(response.head), body: response.body)) }
    func begin(_ head: HTTPResponseHead) { self.responder.begin(self.adding(head)) }
    func respond(_ head: HTTPResponseHead, _ body: SharedBody) { self.responder.respond(self.adding(head), sharing: body) }
    func write(_ bytes: [UInt8]) { self.responder.write(bytes) }
    func write(_ body: SharedBody) { self.responder.write(sharing: body) }
    func send(_ bytes: [UInt8]) async throws(TransportError) { try await self.responder.send(bytes) }
    func end() { self.responder.end() }
    func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void) { self.responder.onWriting(change) }
    func onDisconnect(_ action: @escaping @Sendable () -> Void) { self.responder.onDisconnect(action) }
    func drop() { (self.responder as? any DroppableResponder)?.drop() }
}
