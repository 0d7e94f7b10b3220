import PrimusWire
public import RealtimeCore

/// A code with which a server ended or refused a connection, and the protocol that defines it.
///
/// The same number has different meanings in the protocols: 1002 is a protocol error of WebSocket, and a connection that SockJS can't establish.
/// Any number is kept; the constants are those that the original implementations send or report.
///
/// Source: `main.js` of sockjs-client 1.6.1, `transport.js` of sockjs-node 0.3.24, `server.js` of engine.io 6.5.
public struct PrimusCloseCode: Hashable, Sendable, CustomStringConvertible {
    /// A protocol that defines codes.
    public enum Layer: String, Hashable, Sendable {
        /// The code of a WebSocket close frame.
        case webSocket
        /// The code of a close frame of SockJS.
        case sockJS
        /// The code in the body of a refusal of engine.io.
        case engineIO
    }

    /// The protocol that defines the code.
    public let layer: Layer
    /// The number.
    public let rawValue: Int

    /// Creates a code from its number.
    ///
    /// - Parameters:
    ///   - layer: The protocol that defines the code.
    ///   - rawValue: The number. It needn't be one of the constants.
    public init(_ layer: Layer, _ rawValue: Int) {
        (self.layer, self.rawValue) = (layer, rawValue)
    }

    private init(_ code: SockJSCloseCode) { self.init(.sockJS, code.rawValue) }
    private init(_ code: EngineIOError.Refusal) { self.init(.engineIO, code.rawValue) }

    /// The code of a WebSocket close frame.
    public static func webSocket(_ code: CloseCode) -> PrimusCloseCode { PrimusCloseCode(.webSocket, Int(code.rawValue)) }

    // MARK: SockJS

    /// SockJS, 1000: the connection fulfilled its purpose.
    public static let sockJSNormalClosure = PrimusCloseCode(.normal)
    /// SockJS, 1002: the server can't be reached. Reported by a client.
    public static let sockJSCannotConnect = PrimusCloseCode(.cannotConnect)
    /// SockJS, 1006: the server doesn't know the session any more. Reported by a client.
    public static let sockJSSessionLost = PrimusCloseCode(.lostSession)
    /// SockJS, 2000: no transport works. Reported by a client.
    public static let sockJSAllTransportsFailed = PrimusCloseCode(.allTransportsFailed)
    /// SockJS, 2007: a transport wasn't established in time. Reported by a client.
    public static let sockJSTransportTimedOut = PrimusCloseCode(.transportTimedOut)
    /// SockJS, 2010: the session is in use by another connection.
    public static let sockJSAnotherConnection = PrimusCloseCode(.anotherConnection)
    /// SockJS, 3000: the session is over, or the server ended it because of an invalid message or a missing answer to its heartbeat.
    public static let sockJSGoAway = PrimusCloseCode(.goAway)

    // MARK: engine.io

    /// engine.io, 0: the server doesn't have the transport.
    public static let engineIOUnknownTransport = PrimusCloseCode(.unknownTransport)
    /// engine.io, 1: the server doesn't know the session, for example because it was restarted.
    public static let engineIOUnknownSession = PrimusCloseCode(.unknownSession)
    /// engine.io, 2: the method of the handshake isn't GET.
    public static let engineIOBadHandshakeMethod = PrimusCloseCode(.badHandshakeMethod)
    /// engine.io, 3: the request is invalid.
    public static let engineIOBadRequest = PrimusCloseCode(.badRequest)
    /// engine.io, 4: the server doesn't accept the client.
    public static let engineIOForbidden = PrimusCloseCode(.forbidden)
    /// engine.io, 5: the server doesn't speak the client's version of the protocol.
    public static let engineIOUnsupportedVersion = PrimusCloseCode(.unsupportedVersion)

    /// The meaning of a number that the original implementations use; `nil` for another one.
    private var meaning: String? {
        switch self.layer {
        case .webSocket: nil
        case .sockJS: SockJSCloseCode(rawValue: self.rawValue)?.reason
        case .engineIO: EngineIOError.Refusal(rawValue: self.rawValue)?.message
        }
    }

    /// The protocol, the number and, if it is known, its meaning.
    public var description: String {
        let meaning = self.meaning.map { " (\($0))" } ?? ""
        return switch self.layer {
        case .webSocket: "WebSocket \(self.rawValue)"
        case .sockJS: "SockJS \(self.rawValue)\(meaning)"
        case .engineIO: "engine.io \(self.rawValue)\(meaning)"
        }
    }
}
