import PrimusWire
import RealtimeCoding
import RealtimeCore

extension PrimusError {
    /// The error for the end of a connection, or of an attempt.
    ///
    /// - Parameters:
    ///   - isSilent: Whether the server has accepted the connection, and sent nothing on it.
    ///   - redact: Removes secrets from the text of the server in a response. The texts of the reason have none.
    static func lost(
        _ reason: CloseReason, at endpoint: Endpoint, over transformer: PrimusTransformerKind, wasConnected: Bool,
        isSilent: Bool = false, limit: Duration, redact: (String) -> String
    ) -> PrimusError {
        let message = reason.lossMessage(at: endpoint, wasConnected: wasConnected)
        switch reason {
        case .requested: return .ended
        case .heartbeatTimeout:
            return PrimusError(
                .serverSilent,
                "The server \(endpoint) sent nothing for \(limit). Check the network, and that the silenceLimit is longer than the server's "
                    + "interval of pings.")
        case .openTimeout:
            let silence = " The connection was accepted, and then nothing arrived. Check that proxies on the way pass on WebSockets."
            return PrimusError(wasConnected ? .connectionLost : .timedOut, isSilent ? message + silence : message)
        case .peer(let code, let text):
            return PrimusError(
                code == .tooLarge ? .messageTooLarge : .connectionLost, code == .tooLarge ? message + Self.adviceIfTooLarge : message,
                serverMessage: text.isEmpty ? nil : text, serverCode: code == .noStatus ? nil : Self.serverCode(code, over: transformer))
        case .transport(let error): return Self.lost(error, message, wasConnected: wasConnected, redact)
        }
    }

    /// Returns the code of a close frame. A server of SockJS uses codes of its own in the frame as well; those below 2000 are WebSocket's.
    private static func serverCode(_ code: CloseCode, over transformer: PrimusTransformerKind) -> PrimusCloseCode {
        transformer == .sockjs && code.rawValue >= 2000 ? PrimusCloseCode(.sockJS, Int(code.rawValue)) : .webSocket(code)
    }

    private static func lost(
        _ error: TransportError, _ message: String, wasConnected: Bool, _ redact: (String) -> String
    ) -> PrimusError {
        // The message of a permanent failure says what to change, before anything was sent.
        if error.code.isPermanent { return PrimusError(.invalidConfiguration, error.message, cause: error) }
        let (body, code) = error.response.map { Self.body(of: $0) } ?? (nil, nil)
        let text = body.map(redact)
        // A page that a proxy puts in the place of an answer says nothing about the credentials that the server has accepted.
        let isRefusal = !wasConnected || code == .engineIOForbidden || error.response.flatMap { Self.refusal(in: $0) } != nil
        // The credentials for the server don't concern a proxy.
        switch error.code == .proxyRejected ? nil : error.status {
        case 401? where isRefusal, 403? where isRefusal:
            return PrimusError(
                .unauthorized, "\(message) Check the credentials.", serverMessage: text, serverCode: code, cause: error)
        default:
            return PrimusError(
                error.code == .tooLarge || error.status == 413 ? .messageTooLarge : .connectionLost, message + Self.advice(error, text),
                serverMessage: text, serverCode: code, cause: error)
        }
    }

    /// The advice for a message that the server doesn't accept because of its size.
    private static let adviceIfTooLarge = " Send smaller messages, or increase the limit of the server, maxLength in Primus."

    /// Returns what to check after a refusal, unless the server says why.
    private static func advice(_ error: TransportError, _ text: String?) -> String {
        guard text == nil, error.code != .proxyRejected, let status = error.status else { return "" }
        return switch status {
        case 401, 403: " The answer isn't one of Primus. Check proxies before the server."
        case 404: " Check the path of the URL, and the transformer."
        case 413: Self.adviceIfTooLarge
        case 500...: " Check the server, and proxies before it."
        default: ""
        }
    }

    /// The text with which the application on the server refuses a client; `nil` if a response has none.
    static func refusal(in response: HTTPResponse) -> String? { Self.json(response)?["error"]?.string }

    private static func json(_ response: HTTPResponse) -> JSONValue? {
        try? JSONValue(parsing: response.body, limits: CodingLimits(depth: 16, size: 1 << 16))
    }

    /// Returns the text and the code in the body of a refusal: `{"error":…}` of Primus, or `{"code":…,"message":…}` of engine.io, which answers to
    /// a WebSocket with the text alone.
    private static func body(of response: HTTPResponse) -> (text: String?, code: PrimusCloseCode?) {
        guard let body = Self.json(response) else {
            guard response.head.status == 400, let refusal = EngineIOError(refusal: response.body)?.refusal else { return (nil, nil) }
            return (refusal.message, PrimusCloseCode(.engineIO, refusal.rawValue))
        }
        let text = body["error"]?.string ?? body["message"]?.string
        // Only engine.io has both members.
        let code = body["message"] == nil ? nil : body["code"]?.int.map { PrimusCloseCode(.engineIO, $0) }
        return (text.map { Excerpt.of($0, limit: 4096) }, code)
    }

    /// The error of a client that has given up after this loss, because the policy for reconnects threw an error.
    func ended(by policy: PrimusError) -> PrimusError {
        PrimusError(
            self.code, "\(self.message) \(policy.message)", serverMessage: self.serverMessage, serverCode: self.serverCode,
            cause: policy.cause)
    }
}
